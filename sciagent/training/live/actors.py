"""Rollouts in actors of Ray, on this machine or on several. Each drives its share of the campaigns.

Ray starts an actor again whose process or machine has ended, and asks it again. It then takes over the campaigns and
continues the groups in the ledger, so that no turn is done twice.

Starts what samples the answers and rolls out the groups: in this process, by a server, in actors.
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

from sciagent.agent.messages import EpisodeQuestion, PolicyError, Sampled
from sciagent.agent.policies.batches import BatchPolicy
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.domain.policies import PolicyIdentity
from sciagent.errors import CampaignError, SciagentError, UsageError
from sciagent.inputs.settings import lease_seconds, models_folder
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.training.learner.loading import LoadedModel, load
from sciagent.training.live.engines import (
    Engine,
    InProcessEngine,
    ServedEngine,
    load_weights,
    policy_elsewhere,
    trained_weights,
)
from sciagent.training.live.tasks import driven
from sciagent.training.live.waves import LocalWaves, Stopped, Wave, Waves
from sciagent.training.settings import LiveSettings

if TYPE_CHECKING:
    from sciagent.training.learner.step import Learner


RESTARTS = 5  # of an actor whose process has ended
LOOK = 0.5  # seconds between two looks at whether the run is to stop
EXTRA = "rollout actors need an extra: pip install 'sciagent[ray]'"
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

    def __init__(self, asked: ActorTask) -> None:
        self._asked = asked
        self._stopping = Event()
        self._ledger = Ledger(asked.ledger)
        self._open, tasks = _entered(lambda: driven(asked.settings, self._ledger))
        self._waves = LocalWaves(
            asked.settings, self._ledger, tasks, asked.rewards, asked.context, asked.run, self._stopping
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
        self._open.__exit__(None, None, None)
        self._ledger.close()

    @contextmanager
    def _policy(self, identity: PolicyIdentity, weights: Any) -> Iterator[BatchPolicy]:
        policy = self._served(identity) if weights is None else self._local(identity, weights)
        try:
            yield policy
        finally:
            policy.close()

    def _served(self, identity: PolicyIdentity) -> BatchPolicy:
        return policy_elsewhere(identity, str(self._asked.settings.endpoint))

    def _local(self, identity: PolicyIdentity, weights: Mapping[str, Any]) -> BatchPolicy:
        """Returns a policy that samples in this process. The model is loaded once, and gets the trained weights."""
        import torch

        from sciagent.training.learner.step import Learner

        settings = self._asked.settings
        if self._learner is None or self._loaded is None:
            torch.set_num_threads(settings.threads or 1)
            self._loaded = load(settings.model, settings.lora, settings.seed)
            self._learner = Learner(self._loaded.model, settings.learner)
        load_weights(self._learner.policy, weights)
        return InProcessEngine().policy(self._learner, self._loaded, identity)


def _entered(opened: Callable[[], AbstractContextManager[T]]) -> tuple[AbstractContextManager[T], T]:
    """Enters a context that drives campaigns. It waits for the lease of a driver whose machine has ended."""
    until = time.monotonic() + 2 * lease_seconds()
    while True:
        context = opened()
        try:
            return context, context.__enter__()
        except CampaignError:
            if time.monotonic() > until:
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
            return ActorPolicy(SentPolicy(policy.identity(policy.name), None), self._actors)
        weights = {name: each.cpu() for name, each in trained_weights(learner.policy).items()}
        return ActorPolicy(SentPolicy(version, ray.put(weights)), self._actors)

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
        """The parameters are those of `LocalWaves`. Raises UsageError without the extra, or for
        a campaign that is named twice."""
        if find_spec("ray") is None:
            raise UsageError(EXTRA)
        import ray

        self._stopping = stopping or Event()
        found = shares(settings)
        self._began = not ray.is_initialized()
        self.tasks = [task for _, tasks in found for task in tasks]
        if self._began:
            _begin(None if settings.ray is None else settings.ray.address, len(found))
        url = ledger.url.render_as_string(hide_password=False)
        kind = ray.remote(num_cpus=1, max_restarts=RESTARTS, max_task_retries=RESTARTS, max_concurrency=2)(RolloutActor)
        self._actors = [kind.remote(ActorTask(own, url, spec, context, run)) for own, _ in found]
        self._of_task = {task.name: place for place, (_, tasks) in enumerate(found) for task in tasks}
        self._asked([actor.ready.remote() for actor in self._actors])  # its campaigns are in the ledger then

    def wave(self, step: int, policy: BatchPolicy, places: Mapping[str, Sequence[int]]) -> Wave:
        """Rolls out groups of a step, each task by its actor, as `Waves` says."""
        assert isinstance(policy, ActorPolicy)  # SentEngine makes no other
        of_actor: dict[int, dict[str, Sequence[int]]] = {}
        for task in self.tasks:
            if task.name in places:
                of_actor.setdefault(self._of_task[task.name], {})[task.name] = places[task.name]
        waves: list[Wave] = self._asked(
            [self._actors[n].wave.remote(step, *_flat(policy.sent), own) for n, own in sorted(of_actor.items())]
        )
        groups = [group for wave in waves for group in wave.groups]
        return Wave(groups, *(max(each) for each in zip(*(wave[1:] for wave in waves), strict=True)))

    def answers(self, sent: SentPolicy, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        """Returns the answers in order; each actor answers its share of the questions."""
        n = len(self._actors)
        shares = [list(questions[place::n]) for place in range(n)]
        found = self._asked([a.answers.remote(*_flat(sent), own) for a, own in zip(self._actors, shares, strict=True)])
        return [found[place % n][place // n] for place in range(len(questions))]

    def _asked(self, promises: Sequence[Any]) -> list[Any]:
        """Returns what the actors return. Raises the error of an actor as if it had happened here."""
        import ray

        waiting = list(promises)
        is_told = False
        while waiting:
            _, waiting = ray.wait(waiting, timeout=LOOK)
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
            raise CampaignError(f"a rollout actor ended {RESTARTS} times: {str(error).splitlines()[0]}") from error

    def finish(self) -> None:
        """Lets the ladder decide about all candidates, and gives the campaigns back."""
        self._asked([actor.finish.remote() for actor in self._actors])

    def close(self) -> None:
        """Ends the actors, and Ray if this run began it."""
        import ray

        for actor in self._actors:
            with suppress(Exception):  # one that has ended
                ray.kill(actor)
        if self._began:
            ray.shutdown()


def _flat(sent: SentPolicy) -> tuple[SentPolicy, Any]:
    """Returns the policy and its weights apart: Ray sends what is an argument of its own once a machine."""
    return sent._replace(weights=None), sent.weights


def shares(settings: LiveSettings) -> list[tuple[LiveSettings, list[NamedTask]]]:
    """Returns the settings and the tasks of each actor. Raises UsageError for a campaign that is named twice."""
    named = [NamedTask(load_spec(share.file).campaign, share.weight) for share in settings.tasks]
    for place, task in enumerate(named):
        if task.name in {each.name for each in named[:place]}:
            raise UsageError(f"{settings.tasks[place].file}: the campaign {task.name} is named twice")
    n = min(settings.actors, len(named))
    absolute = [share.model_copy(update={"file": share.file.absolute()}) for share in settings.tasks]
    of_actors = []
    for place in range(n):
        own = settings.with_changes(
            tasks=absolute[place::n], out=settings.out.absolute(), rewards=settings.rewards.absolute()
        )
        of_actors.append((own, named[place::n]))
    return of_actors


def _begin(address: str | None, n: int) -> None:
    """Connects to a cluster, or starts Ray on this machine with room for n actors."""
    import ray

    given = {name: value for name, value in os.environ.items() if name.startswith("SCIAGENT_")}
    settings = {"env_vars": given | {"SCIAGENT_MODELS": str(Path(models_folder()).absolute())}}
    more: dict[str, Any] = {"runtime_env": settings, "log_to_driver": False, "logging_level": "warning"}
    if address is None:
        more |= {"num_cpus": max(n, os.cpu_count() or 1), "include_dashboard": False}
    try:
        ray.init(address or "local", **more)
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
    """Yields the engine and what rolls out the groups. At the end the ladder decides about all candidates.

    engine: None for the one that the settings name. The other parameters are those of `LocalWaves`.
    """
    if not settings.actors:
        with closing(engine or _engine_of(settings)) as own, driven(settings, ledger) as tasks:
            yield own, LocalWaves(settings, ledger, tasks, spec, context, run, stopping)
        return

    served = engine or (_engine_of(settings) if settings.endpoint else None)
    with closing(RolloutActors(settings, ledger, spec, context, run, stopping)) as actors:
        with closing(SentEngine(served, actors)) as sent:
            yield sent, actors
        actors.finish()


def _engine_of(settings: LiveSettings) -> Engine:
    if settings.endpoint is None:
        return InProcessEngine(is_beside=settings.ahead > 0)
    return ServedEngine(settings.endpoint, settings.new_name, settings.out / "adapters", versions=settings.lag + 1)
