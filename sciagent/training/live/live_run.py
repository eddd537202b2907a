"""A training run on the live ladder: rollouts by the current policy, then a training step on their rewards, and so on.

`train_live` starts a run or goes on with one; `LiveRun` takes its steps. A step source gathers the groups of a step:
`StepByStep` just before the step is trained, `OneAhead` while the step before it is trained. `RunGuards` reads the
facts of each step from the ledger and gives them to the guards, which may stop the run.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from sciagent.agent.policies.batched_policies import BatchPolicy
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.errors import UsageError
from sciagent.rewards.reward_spec import RewardSpec, load_rewards
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import evaluations_and_turn_uses, versioned_rewards
from sciagent.store.learning.versioned_rewards import RewardVersionRow
from sciagent.store.results.evidence import read_watermark
from sciagent.training.command_answers import StepSeconds, TrainedPolicy, TrainedStep
from sciagent.training.dataset_building import build
from sciagent.training.guard_watch_and_episode_facts import GuardWatch, episode_facts, has_promises
from sciagent.training.learner import load_and_publish
from sciagent.training.learner.learner_rows_and_rendered_conversations import TrainingRow
from sciagent.training.learner.load_and_publish import LoadedModel, load
from sciagent.training.learner.run_state import RunFolder, replace_file
from sciagent.training.learner.training_run import Tell
from sciagent.training.learner.training_step import Learner, StepMetrics
from sciagent.training.live import ray_rollout_actors, sampling_engines
from sciagent.training.live.group_waves import Stopped
from sciagent.training.live.retrain_on_late_verdicts_and_gather_groups import (
    GatheredStep,
    Gatherer,
    LateVerdicts,
    TrainedGroup,
)
from sciagent.training.live.sampling_engines import Engine, Version
from sciagent.training.settings import DatasetSettings, LiveSettings
from sciagent.training.stopping_guards import EpisodeFacts, StepFacts, StopReason

PolicyOf = Callable[[Version], BatchPolicy]
"""Returns the policy that samples with the weights of a version."""


class StepSource(Protocol):
    """Gathers the steps of a run in turn."""

    next_by: Version | None
    """The version that samples the next step; None: the version that is current when that step is gathered."""

    def gathered(self, number: int, now: Version) -> tuple[GatheredStep, Version]:
        """Returns a step, and the version that sampled it. now: the current version, before the step is trained.

        Raises Stopped if no further turn may begin.
        """

    def close(self) -> None: ...


class StepByStep:
    """Gathers each step just before it is trained, by the current version of the policy."""

    next_by: Version | None = None

    def __init__(self, gatherer: Gatherer, policy_of: PolicyOf) -> None:
        self._gatherer = gatherer
        self._policy_of = policy_of

    def gathered(self, number: int, now: Version) -> tuple[GatheredStep, Version]:
        return self._gatherer.gather(number, self._policy_of(now)), now

    def close(self) -> None:
        """Does nothing: no step is under way."""


class OneAhead:
    """Gathers the next step in another thread while a step is trained, by the version before that training.

    At most one step is under way. The version that samples a step is therefore one step old at most, and does not
    depend on how long sampling and training take.
    """

    def __init__(
        self, gatherer: Gatherer, policy_of: PolicyOf, last: int, stopping: Event, next_by: Version | None
    ) -> None:
        """last: number of the last step. stopping: set to end the step that is under way. next_by: the version that the
        checkpoint names for the next step; None: the current one."""
        self._gatherer = gatherer
        self._policy_of = policy_of
        self._last = last
        self._stopping = stopping
        self.next_by = next_by
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._under_way: Future[GatheredStep] | None = None

    def gathered(self, number: int, now: Version) -> tuple[GatheredStep, Version]:
        if self._under_way is None:
            self._begin(number, self.next_by or now)
        assert self._under_way is not None and self.next_by is not None  # _begin has set both
        step = self._under_way.result()
        sampled_by = self.next_by
        self.next_by = now
        if number < self._last:
            self._begin(number + 1, now)
        return step, sampled_by

    def _begin(self, number: int, by: Version) -> None:
        self.next_by = by
        self._under_way = self._thread.submit(self._gatherer.gather, number, self._policy_of(by))

    def close(self) -> None:
        """Ends the step that is under way before its next turn. A run that goes on later continues that step."""
        if self._under_way is not None and not self._under_way.done():
            self._stopping.set()
            with suppress(Exception):  # Stopped, or an error of a step that the run does not need any more
                self._under_way.result()
        self._thread.shutdown()


STEPS_READ = 3
"""Number of latest steps whose episodes each check reads, since the control may answer late. The control is the rung
that checks the rewards."""


class RunGuards:
    """The guards of one run."""

    def __init__(self, settings: LiveSettings, ledger: Ledger, folder: Path, done: int) -> None:
        """folder: the folder of the run. done: the step of the checkpoint from which the run goes on."""
        self._ledger = ledger
        self._watch = GuardWatch(settings.guard_limits, folder, done)
        self._campaigns: dict[int, Built] = {}  # by id
        self._policy_of_version: dict[int, dict[int, int]] = {}
        """By step: for each version of the rewards, the number of steps that its policy had been trained for."""

    def stopped(self) -> StopReason | None:
        """Returns why a guard has stopped the run; None if none has."""
        return self._watch.stopped

    def check(self, gathered: GatheredStep, kl: float | None, policy: int) -> list[str]:
        """Checks a step; `stopped` then says whether the run has to stop. Returns remarks on the guards themselves.

        policy: number of steps that the policy that sampled the step had been trained for.
        """
        number = gathered.number
        groups = [*gathered.trained, *gathered.dropped]
        versions = sorted({group.version for group in groups})
        self._policy_of_version[number] = dict.fromkeys(versions, policy)
        self._policy_of_version.pop(number - STEPS_READ, None)  # the step that is read no more
        policies: dict[int, int] = {}
        for policies_of_step in self._policy_of_version.values():
            policies.update(policies_of_step)
        facts: list[EpisodeFacts] = []
        with self._ledger.read() as connection:
            rows = [versioned_rewards.get(connection, version) for version in policies]
            now = read_watermark(connection)
            for row in rows:
                if row.campaign_id not in self._campaigns:
                    name = versioned_rewards.campaign_of(connection, row.id)
                    self._campaigns[row.campaign_id] = open_campaign_for_people(self._ledger, name)
                facts += self._facts(connection, row, now, policies[row.id])
        # rewards depend on their description and on the law, which values candidates without a verdict (0: no law)
        laws = sorted({(row.campaign_id, row.spec_hash, row.law or 0) for row in rows})
        specs = [(self._campaigns[row.campaign_id], RewardSpec.model_validate(row.spec)) for row in rows]
        step = StepFacts(
            step=number,
            kl=kl,
            rewards=" ".join(f"{campaign}:{spec_hash[:12]}:{law}" for campaign, spec_hash, law in laws),
            has_control=any(built.control is not None for built in self._campaigns.values()),
            has_promises=any(has_promises(built, spec) for built, spec in specs),
            episodes=tuple(facts),
        )
        self._watch.check(step)
        return list(self._watch.idle_guards(number))

    def _facts(
        self, connection: Connection, version: RewardVersionRow, now: int, policy: int
    ) -> tuple[EpisodeFacts, ...]:
        rows = versioned_rewards.of_version(connection, version.id)
        spec = RewardSpec.model_validate(version.spec)
        policies = {row.trajectory_id: policy for row in rows}
        return episode_facts(self._campaigns[version.campaign_id], connection, rows, spec, now, policies)


RUN_ID_FILE = "run_id"
PAIRS_FOLDER = "pairs"
CHANGEABLE_SETTINGS = {"threads", "save_every", "workers", "patience", "endpoint", "ray", "parts"}
"""Settings that may be others when a run goes on."""


def train_live(
    settings: LiveSettings, ledger: Ledger, tell: Tell, *, stop: Event | None = None, engine: Engine | None = None
) -> TrainedPolicy:
    """Trains a model on the live ladder, or goes on with a run that was ended.

    stop: once another thread sets it, the run ends after the turn that is under way. engine: samples the answers; None:
    the engine that the settings name. Raises UsageError for a folder of another run.
    """
    import torch

    if settings.threads:
        torch.set_num_threads(settings.threads)
    load_and_publish.check_name(settings.new_name, settings.out)
    spec = reward_spec(settings)
    loaded = load(settings.model, settings.lora, settings.seed)
    recipe = _run_recipe(settings, spec, loaded)
    folder = RunFolder(settings.out, recipe)
    needs_reference = settings.kl or settings.guard_limits.kl_budget is not None
    reference = loaded.reference() if needs_reference else None
    learner = Learner(loaded.model, settings.learner, reference=reference, allowed=loaded.grammars.allowed)
    if learner.accelerator.num_processes > 1:
        raise UsageError("training on the live ladder runs in one process; start it without `accelerate launch`")
    run_id = _run_id(folder)
    stopping = stop or Event()
    with ray_rollout_actors.started(settings, ledger, spec, loaded.context, run_id, engine, stopping) as (
        sampling_engine,
        waves,
    ):
        names = [task.name for task in waves.tasks]
        late = LateVerdicts(ledger, names, spec, loaded.context, _late_lag(settings))
        gatherer = Gatherer(settings, waves)
        run = LiveRun(settings, ledger, folder, loaded, learner, sampling_engine, gatherer, recipe, late, stopping)
        stopped_by = run.steps(tell)
    return run.answer(stopped_by)


def _late_lag(settings: LiveSettings) -> int:
    """Returns the number of steps after which a late verdict is still trained; -1: none is, as with PPO."""
    if settings.training == "ppo":
        return -1
    return settings.lag - settings.ahead


def reward_spec(settings: LiveSettings) -> RewardSpec:
    """Returns the description of the rewards, with the credit that the settings state."""
    spec = load_rewards(settings.rewards)
    if settings.credit is None:
        return spec
    return RewardSpec.model_validate(spec.model_dump() | {"credit": settings.credit})


class LiveRun:
    """A run: its learner, the number of steps that it has taken, and the version of the policy that it has reached."""

    def __init__(
        self,
        settings: LiveSettings,
        ledger: Ledger,
        folder: RunFolder,
        loaded: LoadedModel,
        learner: Learner,
        engine: Engine,
        gatherer: Gatherer,
        recipe: Mapping[str, Any],
        late: LateVerdicts,
        stopping: Event,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._folder = folder
        self._loaded = loaded
        self._learner = learner
        self._engine = engine
        self._recipe = recipe
        self._done = folder.restore(learner)  # number of steps so far
        self._guards = RunGuards(settings, ledger, folder.path, self._done)
        noted = folder.noted or {"uses": [], "seen": {}, "refused": []}
        self._pending_uses: list[list[Any]] = list(noted["uses"])
        """Uses of turns that are not in the ledger yet: id of the policy, version of the rewards, ids of the turns."""
        self._write_uses()
        self._late = late
        refused = [(name, id_) for name, id_ in noted["refused"]]
        late.restore(_run_id(folder), self._done, noted["seen"], refused)
        self._step_source: StepSource = StepByStep(gatherer, self._policy)
        if settings.ahead:
            next_by = sampling_engines.from_checkpoint(noted.get("next_by"))
            self._step_source = OneAhead(gatherer, self._policy, settings.steps, stopping, next_by)
        # before the first step, a policy without an adapter is the model itself
        is_untrained = not self._done and not loaded.rank
        self._identity = sampling_engines.identity_of_model(loaded.card) if is_untrained else self._version()
        self._policy_id = sampling_engines.enter_version(ledger, self._identity, parent_id=None, recipe=self._recipe)

    def steps(self, tell: Tell) -> str:
        """Takes the remaining steps; returns why the run ended: `steps`, `interrupt`, `budget` or a guard's name."""
        with closing(self._step_source):
            return self._steps(tell)

    def _steps(self, tell: Tell) -> str:
        settings = self._settings
        reason = self._guards.stopped()
        if reason is not None:
            return reason.name
        for number in range(self._done + 1, settings.steps + 1):
            try:
                gathered, sampled_by = self._step_source.gathered(number, self._current_version())
            except Stopped as stopped:
                self._save()
                return stopped.reason
            changed_groups = self._late.changed(number)
            step = self._train(gathered, sampled_by.identity.name, changed_groups)
            notes = self._guards.check(gathered, step.kl, sampled_by.steps)
            step = step.model_copy(update={"notes": notes})
            self._folder.add_metrics(step.model_dump())
            tell(step, settings.steps)
            reason = self._guards.stopped()
            if reason is not None:
                self._save()
                return reason.name
            if number % settings.checkpoint_steps == 0:
                self._save()
        self._save()
        return "steps"

    def _current_version(self) -> Version:
        """Returns the current version of the policy. It has the weights if sampling goes on while they are trained."""
        weights = sampling_engines.trained_weights(self._learner.policy) if self._settings.ahead else None
        return Version(self._identity, self._done, weights)

    def _policy(self, version: Version) -> BatchPolicy:
        with sampling_engines.weights_swapped(self._learner.policy, version.weights):
            return self._engine.policy(self._learner, self._loaded, version.identity)

    def _train(self, gathered: GatheredStep, sampled_by: str, changed: Sequence[TrainedGroup]) -> TrainedStep:
        """Takes a training step, and enters the new version of the policy into the ledger.

        sampled_by: name of the version that sampled the step. changed: earlier groups whose rewards have changed; the
        advantages of their rows are the changes.
        """
        rows = [row for group in gathered.trained for row in group.rows]
        changed_groups = [each.group for each in changed]
        trained_groups = [*gathered.trained, *changed_groups]
        if trained_groups:
            metrics = self._updated(rows, [group.rows for group in changed_groups])
            self._identity = self._version()
            recipe = {**self._recipe, "step": gathered.number}
            self._policy_id = sampling_engines.enter_version(
                self._ledger, self._identity, parent_id=self._policy_id, recipe=recipe
            )
            for group in trained_groups:
                self._pending_uses.append([self._policy_id, group.version, group.turns])
        else:  # no weight changes
            metrics = StepMetrics(
                loss=0.0, reward=None, masked=0.0, kl=None, entropy=0.0, grad_norm=0.0, tokens=0, seconds=0.0
            )
        self._late.trained(gathered.number, [*gathered.trained, *gathered.dropped])
        self._done = gathered.number
        return _trained_step(gathered, metrics, len(rows), sampled_by, len(changed))

    def _updated(self, rows: Sequence[TrainingRow], changed: Sequence[Sequence[TrainingRow]]) -> StepMetrics:
        """Updates the weights once; returns the metrics. rows: the rows of the step, which may be empty.

        changed: rows of each group whose rewards have changed. Each of these groups adds a gradient of its own.
        """
        if not rows:  # the first changed group then takes the place of the step's rows
            return self._updated(changed[0], changed[1:])
        for rows_of_group in changed:
            self._learner.gradient(rows_of_group)
        return self._learner.step(rows)

    def _version(self) -> PolicyIdentity:
        return sampling_engines.identity_of(self._loaded, self._learner.policy, self._settings.new_name)

    def _save(self) -> None:
        """Writes the checkpoint with the pending uses of turns, then writes the uses into the ledger.

        After a kill in between, the checkpoint still has the uses, and the next start writes them into the ledger.
        """
        refused = sorted(map(list, self._late.refused))
        noted = {"uses": self._pending_uses, "seen": dict(self._late.look_before), "refused": refused}
        next_by = self._step_source.next_by
        if next_by is not None:
            noted["next_by"] = next_by.to_checkpoint()
        self._folder.save(self._learner, self._done, noted)
        self._write_uses()

    def _write_uses(self) -> None:
        """Writes the pending uses of turns into the ledger."""
        if self._pending_uses:
            with self._ledger.begin() as connection:
                for policy_id, version, turns in self._pending_uses:
                    evaluations_and_turn_uses.write(connection, policy_id, version, turns)
        self._pending_uses = []

    def answer(self, stopped_by: str) -> TrainedPolicy:
        """Publishes the policy unless the run was interrupted; returns the answer."""
        settings = self._settings
        policy = None
        if stopped_by != "interrupt":
            self._late.close(self._done)
            if not load_and_publish.is_written(settings.out, self._done):
                self._write_pairs()
                load_and_publish.write_weights(self._loaded, self._learner.policy, settings.out, self._done)
            card = load_and_publish.publish(self._loaded, settings.out, settings.new_name, self._recipe, self._ledger)
            policy = card.policy
        reason = self._guards.stopped()
        return TrainedPolicy(
            policy=policy,
            parent=self._loaded.card.policy,
            steps=self._done,
            stopped_by=stopped_by,
            why=None if reason is None else reason.sentence,
            folder=str(settings.out),
            left_out={},
        )

    def _write_pairs(self) -> None:
        """Writes preference pairs of the groups whose rewards changed too late to be trained on."""
        refused = self._late.refused
        folder = self._settings.out / PAIRS_FOLDER
        shutil.rmtree(folder, ignore_errors=True)  # pairs that this run wrote when it ended after fewer steps
        if refused:
            names = sorted({name for name, _ in refused})
            ids = tuple(sorted(id_ for _, id_ in refused))
            pairs = DatasetSettings(kind="preference", campaigns=tuple(names), groups=ids, test_share=0.0)
            build(self._ledger, pairs, folder)


def _trained_step(gathered: GatheredStep, metrics: StepMetrics, rows: int, policy: str, late: int) -> TrainedStep:
    """Returns what is told about a step. rows: their number. policy: name of the version that sampled the step. late:
    number of earlier groups whose rewards have changed."""
    groups = [*gathered.trained, *gathered.dropped]
    outcomes = [outcome for group in groups for outcome in group.outcomes]
    learner_metrics = metrics._replace(reward=_mean(outcomes))._asdict()
    learner_metrics["seconds"] = StepSeconds(
        sample=gathered.sample_seconds,
        verify=gathered.verify_seconds,
        wait=gathered.wait_seconds,
        update=metrics.seconds,
    )
    return TrainedStep(
        step=gathered.number,
        epoch=1,
        rows=rows,
        policy=policy,
        groups=len(gathered.trained),
        dropped=len(gathered.dropped),
        late=late,
        terms=_means([terms for group in groups for terms in group.terms]),
        **learner_metrics,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _means(terms: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """Returns the mean of each term over the episodes. An episode without the term counts as 0."""
    names = sorted({name for terms_of_episode in terms for name in terms_of_episode})
    return {name: sum(terms_of_episode.get(name, 0.0) for terms_of_episode in terms) / len(terms) for name in names}


def _run_id(folder: RunFolder) -> str:
    """Returns the id of the run, by which the ledger knows its groups. The first call for a folder makes the id."""
    path = folder.path / RUN_ID_FILE
    if not path.is_file():
        replace_file(path, uuid.uuid4().hex.encode())
    return path.read_text(encoding="utf-8")


def _run_recipe(settings: LiveSettings, spec: RewardSpec, loaded: LoadedModel) -> Mapping[str, Any]:
    """Returns all settings that decide the result of a run, as JSON values."""
    # they change nothing about the result, or the hashes and the learner's settings state them
    left_out = {"tasks", "out", "rewards", "credit", "constants"} | CHANGEABLE_SETTINGS
    values = settings.model_dump(mode="json", exclude=left_out) | settings.learner.model_dump(mode="json")
    tasks = [[load_spec(task.file).identity_hash, task.weight] for task in settings.tasks]
    return values | {"name": settings.new_name, "model": loaded.card.policy, "rewards": spec.hash, "tasks": tasks}
