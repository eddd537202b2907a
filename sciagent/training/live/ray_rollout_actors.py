"""Rollouts in actors of Ray, on this machine or on several. Each actor drives its share of the campaigns.

If the process or machine of an actor ends, Ray starts the actor again and repeats the request. The new actor takes over
the campaigns and continues the groups in the ledger, so that no turn is done twice.

`started` chooses what samples the answers and rolls out the groups of a run: this process, a server, or actors.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, PolicyError, Sampled
from sciagent.agent.policies.batched_policies import BatchPolicy
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.errors import CampaignError, SciagentError, UsageError
from sciagent.inputs.environment_variables import lease_seconds, models_folder
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.training.learner.load_and_publish import LoadedModel, load
from sciagent.training.live.driven_task_campaigns import driven
from sciagent.training.live.group_waves import LocalWaves, Stopped, Wave, Waves
from sciagent.training.live.sampling_engines import (
    Engine,
    InProcessEngine,
    ServedEngine,
    load_weights,
    policy_loaded_elsewhere,
    trained_weights,
)
from sciagent.training.settings import LiveSettings

if TYPE_CHECKING:
    from sciagent.training.learner.training_step import Learner


MAX_RESTARTS = 5  # of an actor whose process has ended
LOOK_SECONDS = 0.5  # between two looks at whether the run is to stop
MISSING_EXTRA = "rollout actors need an extra: pip install 'sciagent[ray]'"
T = TypeVar("T")


class NamedTask(NamedTuple):
    """A campaign that an actor drives."""

    name: str
    weight: float


class ActorTask(NamedTuple):
    """The task of one actor, which can be sent to another machine."""

    settings: LiveSettings
    """With the actor's campaigns alone, and absolute paths."""
    ledger: str
    """URL of the ledger."""
    rewards: RewardSpec
    context: int
    """Most tokens of a row."""
    run: str
    """Id of the run."""


class SentPolicy(NamedTuple):
    """A version of the policy, as actors get it."""

    identity: PolicyIdentity
    weights: Any
    """Trained weights by name; None if a server has them."""


class RolloutActor:
    """One process of rollouts, which drives its campaigns with the runner of a single process."""

    def __init__(self, task: ActorTask) -> None:
        self._task = task
        self._stopping = Event()
        self._ledger = Ledger(task.ledger)
        self._driving, live_tasks = _enter_when_free(lambda: driven(task.settings, self._ledger))
        self._waves = LocalWaves(
            task.settings, self._ledger, live_tasks, task.rewards, task.context, task.run, self._stopping
        )
        self._learner: Learner | None = None
        self._loaded: LoadedModel | None = None

    def ready(self) -> None:
        """Returns once the actor drives its campaigns."""

    def wave(self, step: int, sent: SentPolicy, weights: Any, places: Mapping[str, Sequence[int]]) -> Wave:
        """Rolls out groups of a step, as `Waves` says. weights: of the policy, if no server has them."""
        with self._policy(sent.identity, weights) as policy:
            return self._waves.wave(step, policy, places)

    def answers(
        self, sent: SentPolicy, weights: Any, questions: Sequence[EpisodeQuestion]
    ) -> list[Sampled | PolicyError]:
        """Returns the answers of a policy in order."""
        with self._policy(sent.identity, weights) as policy:
            return policy.answers(questions)

    def stop(self) -> None:
        """Ends the wave that runs before its next turn."""
        self._stopping.set()

    def finish(self) -> None:
        """Lets the ladder decide about all candidates, and gives the campaigns back."""
        self._driving.__exit__(None, None, None)  # `__init__` has entered this context
        self._ledger.close()

    @contextmanager
    def _policy(self, identity: PolicyIdentity, weights: Any) -> Iterator[BatchPolicy]:
        policy = self._served_policy(identity) if weights is None else self._local_policy(identity, weights)
        try:
            yield policy
        finally:
            policy.close()

    def _served_policy(self, identity: PolicyIdentity) -> BatchPolicy:
        return policy_loaded_elsewhere(identity, str(self._task.settings.endpoint))

    def _local_policy(self, identity: PolicyIdentity, weights: Mapping[str, Any]) -> BatchPolicy:
        """Returns a policy that samples in this process. The model is loaded once, and gets the trained weights."""
        import torch

        from sciagent.training.learner.training_step import Learner

        settings = self._task.settings
        if self._learner is None or self._loaded is None:
            torch.set_num_threads(settings.threads or 1)
            self._loaded = load(settings.model, settings.lora, settings.seed)
            self._learner = Learner(self._loaded.model, settings.learner)
        load_weights(self._learner.policy, weights)
        return InProcessEngine().policy(self._learner, self._loaded, identity)


def _enter_when_free(make_context: Callable[[], AbstractContextManager[T]]) -> tuple[AbstractContextManager[T], T]:
    """Enters a context that drives campaigns; returns the context, and what it yields.

    If another driver has the lease of a campaign, the function waits: the lease of a driver that has ended lapses.
    """
    deadline = time.monotonic() + 2 * lease_seconds()  # a live driver renews its lease; waiting longer is no use
    while True:
        context = make_context()
        try:
            return context, context.__enter__()
        except CampaignError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)


class SentEngine:
    """Sends each version of the policy to the actors: its trained weights, or its name on a server."""

    def __init__(self, served: Engine | None, actors: RolloutActors) -> None:
        """served: loads the versions into a server; None: the actors sample themselves."""
        self._served = served
        self._actors = actors

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> BatchPolicy:
        """Returns the policy as it is now, which the actors sample from."""
        import ray

        if self._served is not None:
            policy = self._served.policy(learner, loaded, version)
            return ActorPolicy(SentPolicy(policy.identity(policy.name), weights=None), self._actors)
        weights = {name: tensor.cpu() for name, tensor in trained_weights(learner.policy).items()}
        return ActorPolicy(SentPolicy(version, weights=ray.put(weights)), self._actors)

    def close(self) -> None:
        if self._served is not None:
            self._served.close()


class ActorPolicy:
    """A version of the policy that the actors have."""

    def __init__(self, sent: SentPolicy, actors: RolloutActors) -> None:
        self.sent = sent
        self.name = sent.identity.name
        self._actors = actors

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        return self._actors.answers(self.sent, questions)

    def identity(self, served: str) -> PolicyIdentity:
        return self.sent.identity

    def close(self) -> None:
        """Does nothing: the weights go with the last reference to them."""


class RolloutActors:
    """The actors of a run: `Waves` whose groups several processes roll out side by side."""

    def __init__(
        self,
        settings: LiveSettings,
        ledger: Ledger,
        spec: RewardSpec,
        context: int,
        run: str,
        stopping: Event | None = None,
    ) -> None:
        """The parameters are those of `LocalWaves`. Raises UsageError if Ray is not installed, or for a campaign that
        is named twice."""
        if find_spec("ray") is None:
            raise UsageError(MISSING_EXTRA)
        import ray

        self._stopping = stopping or Event()
        actor_shares = shares_of_actors(settings)
        self._has_started_ray = not ray.is_initialized()
        if self._has_started_ray:
            address = None if settings.ray is None else settings.ray.address
            _start_ray(address, len(actor_shares))
        url = ledger.url.render_as_string(hide_password=False)
        make_remote = ray.remote(
            num_cpus=1,
            max_restarts=MAX_RESTARTS,
            max_task_retries=MAX_RESTARTS,
            max_concurrency=2,  # so that `stop` reaches an actor during a wave
        )
        remote_class = make_remote(RolloutActor)
        self.tasks: list[NamedTask] = []
        self._actors = []
        self._actor_of_task: dict[str, int] = {}
        for place, (own_settings, own_tasks) in enumerate(actor_shares):
            self._actors.append(remote_class.remote(ActorTask(own_settings, url, spec, context, run)))
            self.tasks += own_tasks
            for task in own_tasks:
                self._actor_of_task[task.name] = place
        self._results([actor.ready.remote() for actor in self._actors])  # waits until the ledger has all campaigns

    def wave(self, step: int, policy: BatchPolicy, places: Mapping[str, Sequence[int]]) -> Wave:
        """Rolls out groups of a step, each task by its actor, as `Waves` says."""
        assert isinstance(policy, ActorPolicy)  # SentEngine makes no other
        places_by_actor: dict[int, dict[str, Sequence[int]]] = {}
        for task in self.tasks:
            if task.name in places:
                places_of_actor = places_by_actor.setdefault(self._actor_of_task[task.name], {})
                places_of_actor[task.name] = places[task.name]
        sent, weights = _split_weights(policy.sent)
        promises = []
        for number, places_of_actor in sorted(places_by_actor.items()):
            promises.append(self._actors[number].wave.remote(step, sent, weights, places_of_actor))
        waves: list[Wave] = self._results(promises)
        # the actors work at the same time, so that the slowest one determines the seconds
        return Wave(
            [group for wave in waves for group in wave.groups],
            sample_seconds=max(wave.sample_seconds for wave in waves),
            verify_seconds=max(wave.verify_seconds for wave in waves),
            wait_seconds=max(wave.wait_seconds for wave in waves),
        )

    def answers(self, sent: SentPolicy, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        """Returns the answers in order; each actor answers its share of the questions."""
        n = len(self._actors)
        named_policy, weights = _split_weights(sent)
        promises = []
        for place, actor in enumerate(self._actors):  # actor i gets the questions i, i + n, i + 2 n, …
            promises.append(actor.answers.remote(named_policy, weights, list(questions[place::n])))
        answers_by_actor = self._results(promises)
        return [answers_by_actor[number % n][number // n] for number in range(len(questions))]

    def _results(self, promises: Sequence[Any]) -> list[Any]:
        """Waits for the actors; returns their results. Raises the error of an actor as if it had happened here."""
        import ray

        waiting = list(promises)
        is_told = False
        while waiting:
            _, waiting = ray.wait(waiting, timeout=LOOK_SECONDS)
            if self._stopping.is_set() and not is_told:
                is_told = True
                for actor in self._actors:
                    actor.stop.remote()
        try:
            return list(ray.get(list(promises)))
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, SciagentError | Stopped):
                raise error.cause from None
            raise
        except ray.exceptions.RayActorError as error:
            raise CampaignError(f"a rollout actor ended {MAX_RESTARTS} times: {str(error).splitlines()[0]}") from error

    def finish(self) -> None:
        """Lets the ladder decide about all candidates, and gives the campaigns back."""
        self._results([actor.finish.remote() for actor in self._actors])

    def close(self) -> None:
        """Ends the actors, and Ray if this run began it."""
        import ray

        for actor in self._actors:
            with suppress(Exception):  # the actor may have ended already
                ray.kill(actor)
        if self._has_started_ray:
            ray.shutdown()


def _split_weights(sent: SentPolicy) -> tuple[SentPolicy, Any]:
    """Returns the policy without its weights, and the weights. Ray sends a separate argument once to each machine."""
    return sent._replace(weights=None), sent.weights


def shares_of_actors(settings: LiveSettings) -> list[tuple[LiveSettings, list[NamedTask]]]:
    """Returns the settings and the tasks of each actor. Raises UsageError for a campaign that is named twice."""
    tasks: list[NamedTask] = []
    for share in settings.tasks:
        task = NamedTask(load_spec(share.file).campaign, share.weight)
        if task.name in {earlier.name for earlier in tasks}:
            raise UsageError(f"{share.file}: the campaign {task.name} is named twice")
        tasks.append(task)
    n = min(settings.actors, len(tasks))
    absolute = [share.model_copy(update={"file": share.file.absolute()}) for share in settings.tasks]
    actor_shares = []
    for place in range(n):  # actor i gets the tasks i, i + n, i + 2 n, …
        own_settings = settings.with_changes(
            tasks=absolute[place::n], out=settings.out.absolute(), rewards=settings.rewards.absolute()
        )
        actor_shares.append((own_settings, tasks[place::n]))
    return actor_shares


def _start_ray(address: str | None, n_actors: int) -> None:
    """Connects to a cluster, or starts Ray on this machine with room for all actors."""
    import ray

    # actors on other machines read the same settings of sciagent from their environment
    variables = {name: value for name, value in os.environ.items() if name.startswith("SCIAGENT_")}
    variables["SCIAGENT_MODELS"] = str(Path(models_folder()).absolute())
    options: dict[str, Any] = {
        "runtime_env": {"env_vars": variables},
        "log_to_driver": False,
        "logging_level": "warning",
    }
    if address is None:
        options["num_cpus"] = max(n_actors, os.cpu_count() or 1)
        options["include_dashboard"] = False
    try:
        ray.init(address or "local", **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"--ray-address {address}: {error}") from error


@contextmanager
def started(
    settings: LiveSettings,
    ledger: Ledger,
    spec: RewardSpec,
    context: int,
    run: str,
    engine: Engine | None,
    stopping: Event | None,
) -> Iterator[tuple[Engine, Waves]]:
    """Yields the engine that samples, and the waves that roll out groups. At the end the ladder decides about all
    candidates.

    engine: None for the one that the settings name. The other parameters are those of `LocalWaves`.
    """
    if not settings.actors:
        with closing(engine or _engine_of(settings)) as local_engine, driven(settings, ledger) as tasks:
            yield local_engine, LocalWaves(settings, ledger, tasks, spec, context, run, stopping)
        return

    served_engine = engine
    if served_engine is None and settings.endpoint:
        served_engine = _engine_of(settings)
    with closing(RolloutActors(settings, ledger, spec, context, run, stopping)) as actors:
        with closing(SentEngine(served_engine, actors)) as sent_engine:
            yield sent_engine, actors
        actors.finish()


def _engine_of(settings: LiveSettings) -> Engine:
    if settings.endpoint is None:
        return InProcessEngine(is_beside=settings.ahead > 0)
    # a step may be sampled by a version that is up to `lag` steps old
    return ServedEngine(settings.endpoint, settings.new_name, settings.out / "adapters", versions=settings.lag + 1)
