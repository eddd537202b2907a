"""A training run on the live ladder: rollouts by the policy as it is, then a step on what they earned, and so on."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from threading import Event
from typing import Any

from sciagent.agent.policies.batches import BatchPolicy
from sciagent.campaign.spec.load import load_spec
from sciagent.domain.policies import PolicyIdentity
from sciagent.errors import UsageError
from sciagent.rewards.spec import RewardSpec, load_rewards
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import uses
from sciagent.training.building import build
from sciagent.training.datasets import DatasetWish
from sciagent.training.learner import publishing
from sciagent.training.learner.loading import LoadedModel, load
from sciagent.training.learner.rows import TrainingRow
from sciagent.training.learner.running import Tell
from sciagent.training.learner.state import RunFolder, replace
from sciagent.training.learner.step import Learner, StepMetrics
from sciagent.training.live import rolling, versions
from sciagent.training.live.engines import Engine
from sciagent.training.live.gathering import GatheredStep, Gatherer
from sciagent.training.live.guarding import RunGuards, settings_of
from sciagent.training.live.late import LateVerdicts, TrainedGroup
from sciagent.training.live.pacing import OneAhead, StepByStep, StepSource
from sciagent.training.live.settings import LiveWish
from sciagent.training.live.versions import Version
from sciagent.training.live.waves import Stopped
from sciagent.training.progress import StepSeconds, TrainedPolicy, TrainedStep

RUN_ID, PAIRS = "run_id", "pairs"
ELSEWHERE = {"threads", "save_every", "workers", "patience", "endpoint", "actors", "ray_address", "parts"}
"""Fields of a wish that may change when a run goes on."""


def train_live(
    wish: LiveWish, ledger: Ledger, tell: Tell, *, stop: Event | None = None, engine: Engine | None = None
) -> TrainedPolicy:
    """Trains a model on the live ladder, or goes on with a run that was ended.

    stop: set from another thread, it ends the run after the turn that is under way. engine: samples the answers; None:
    the one that the wish names. Raises UsageError for a folder of another run or a wish that cannot be
    fulfilled.
    """
    import torch

    wish.check()
    if wish.threads:
        torch.set_num_threads(wish.threads)
    publishing.check_name(wish.name, wish.out)
    spec = reward_spec(wish)
    loaded = load(wish.model, wish.rank, wish.seed)
    asked = _asked(wish, spec, loaded)
    folder = RunFolder(wish.out, asked)
    limits = settings_of(wish)
    reference = loaded.reference() if wish.settings.loss.kl or limits.kl_budget is not None else None
    learner = Learner(loaded.model, wish.settings, reference=reference, allowed=loaded.grammars.allowed)
    if learner.accelerator.num_processes > 1:
        raise UsageError("training on the live ladder runs in one process; start it without `accelerate launch`")
    run_id, stopping = _run_id(folder), stop or Event()
    with rolling.started(wish, ledger, spec, loaded.context, run_id, engine, stopping) as (sampling, waves):
        names = [task.name for task in waves.tasks]
        lag = -1 if wish.training == "ppo" else wish.lag - wish.ahead
        late = LateVerdicts(ledger, names, spec, loaded.context, lag)
        run = LiveRun(wish, ledger, folder, loaded, learner, sampling, Gatherer(wish, waves), asked, late, stopping)
        stopped_by = run.steps(tell)
    return run.answer(stopped_by)


def reward_spec(wish: LiveWish) -> RewardSpec:
    """Returns the description of the rewards, with the credit of the wish."""
    spec = load_rewards(wish.rewards)
    return spec if wish.credit is None else RewardSpec.model_validate(spec.model_dump() | {"credit": wish.credit})


class LiveRun:
    """A run with its learner and its place among the steps."""

    def __init__(
        self,
        wish: LiveWish,
        ledger: Ledger,
        folder: RunFolder,
        loaded: LoadedModel,
        learner: Learner,
        engine: Engine,
        gatherer: Gatherer,
        asked: Mapping[str, Any],
        late: LateVerdicts,
        stopping: Event,
    ) -> None:
        self._wish, self._ledger, self._folder, self._loaded = wish, ledger, folder, loaded
        self._learner, self._engine, self._asked = learner, engine, asked
        self._done = folder.restore(learner)
        self._guards = RunGuards(wish, ledger, folder.path, self._done)
        noted = folder.noted or {"uses": [], "seen": {}, "refused": []}
        self._pending: list[list[Any]] = list(noted["uses"])
        self._book()
        self._late = late
        late.restore(_run_id(folder), self._done, noted["seen"], [(name, id_) for name, id_ in noted["refused"]])
        self._pace: StepSource = StepByStep(gatherer, self._policy)
        if wish.ahead:
            next_by = versions.of_note(noted.get("next_by"))
            self._pace = OneAhead(gatherer, self._policy, wish.steps, stopping, next_by)
        fresh = not self._done and not loaded.rank
        self._identity = versions.of_card(loaded.card) if fresh else self._version()
        self._policy_id = versions.entered(ledger, self._identity, None, self._asked)

    def steps(self, tell: Tell) -> str:
        """Takes the steps that are left; returns why the run ended."""
        with closing(self._pace):
            return self._steps(tell)

    def _steps(self, tell: Tell) -> str:
        wish = self._wish
        if (reason := self._guards.stopped()) is not None:
            return reason.name
        for number in range(self._done + 1, wish.steps + 1):
            try:
                gathered, by = self._pace.gathered(number, self._now())
            except Stopped as stopped:
                self._save()
                return stopped.reason
            step = self._train(gathered, by.identity.name, self._late.changed(number))
            step = step.model_copy(update={"notes": self._guards.check(gathered, step.kl, by.steps)})
            self._folder.add_metrics(step.model_dump())
            tell(step, wish.steps)
            if (reason := self._guards.stopped()) is not None:
                self._save()
                return reason.name
            if number % wish.save_every == 0:
                self._save()
        self._save()
        return "steps"

    def _now(self) -> Version:
        """Returns the policy as it is; its weights too if they are needed after they have changed."""
        weights = versions.trained_weights(self._learner.policy) if self._wish.ahead else None
        return Version(self._identity, self._done, weights)

    def _policy(self, version: Version) -> BatchPolicy:
        with versions.holding(self._learner.policy, version.weights):
            return self._engine.policy(self._learner, self._loaded, version.identity)

    def _train(self, gathered: GatheredStep, sampled_by: str, changed: Sequence[TrainedGroup]) -> TrainedStep:
        """Takes a training step, and enters the new version of the policy. sampled_by: name of the version that sampled
        it. changed: earlier groups, with rows of the change of their advantages."""
        rows = [row for group in gathered.trained for row in group.rows]
        trained = [*gathered.trained, *(each.group for each in changed)]
        if trained:
            metrics = self._updated(rows, [each.group.rows for each in changed])
            self._identity = self._version()
            recipe = {"run": self._asked, "step": gathered.number}
            self._policy_id = versions.entered(self._ledger, self._identity, self._policy_id, recipe)
            for group in trained:
                self._pending.append([self._policy_id, group.version, group.turns])
        else:
            metrics = StepMetrics(0.0, None, 0.0, None, 0.0, 0.0, 0, 0.0)
        self._late.trained(gathered.number, [*gathered.trained, *gathered.dropped])
        self._done = gathered.number
        return _told(gathered, metrics, len(rows), sampled_by, len(changed))

    def _updated(self, rows: Sequence[TrainingRow], changed: Sequence[Sequence[TrainingRow]]) -> StepMetrics:
        """Updates the weights by the rows of a step and by those of changed rewards, each group of which has a gradient
        of its own."""
        if not rows:
            return self._updated(changed[0], changed[1:])
        for of_group in changed:
            self._learner.gradient(of_group)
        return self._learner.step(rows)

    def _version(self) -> PolicyIdentity:
        return versions.identity_of(self._loaded, self._learner.policy, self._wish.name)

    def _save(self) -> None:
        """Writes the checkpoint with the uses of turns since the last one, then the uses into the ledger.

        After a kill in between, the checkpoint still has them, and the next start writes what is missing.
        """
        refused = sorted(map(list, self._late.refused))
        noted = {"uses": self._pending, "seen": dict(self._late.seen), "refused": refused}
        if (next_by := self._pace.next_by) is not None:
            noted["next_by"] = next_by.noted()
        self._folder.save(self._learner, self._done, noted)
        self._book()

    def _book(self) -> None:
        if self._pending:
            with self._ledger.begin() as connection:
                for policy_id, version, turns in self._pending:
                    uses.write(connection, policy_id, version, turns)
        self._pending = []

    def answer(self, stopped_by: str) -> TrainedPolicy:
        """Publishes the policy unless the run was interrupted; returns the answer."""
        wish, policy = self._wish, None
        if stopped_by != "interrupt":
            self._late.close(self._done)
            if not publishing.is_written(wish.out, self._done):
                self._pairs()
                publishing.write_weights(self._loaded, self._learner.policy, wish.out, self._done)
            policy = publishing.publish(self._loaded, wish.out, wish.name, self._asked, self._ledger).policy
        return TrainedPolicy(
            policy=policy,
            parent=self._loaded.card.policy,
            steps=self._done,
            stopped_by=stopped_by,
            why=None if (reason := self._guards.stopped()) is None else reason.sentence,
            folder=str(wish.out),
            left_out={},
        )

    def _pairs(self) -> None:
        """Writes preference pairs of the groups whose rewards changed too late to be trained on."""
        refused, folder = self._late.refused, self._wish.out / PAIRS
        shutil.rmtree(folder, ignore_errors=True)  # those of a run with fewer steps
        if refused:
            names = sorted({name for name, _ in refused})
            ids = tuple(sorted(id_ for _, id_ in refused))
            build(self._ledger, DatasetWish("preference", names, groups=ids, test_share=0.0), folder)


def _told(gathered: GatheredStep, metrics: StepMetrics, rows: int, policy: str, late: int) -> TrainedStep:
    groups = [*gathered.trained, *gathered.dropped]
    outcomes = [outcome for group in groups for outcome in group.outcomes]
    seconds = StepSeconds(
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
        **metrics._replace(reward=_mean(outcomes), seconds=0.0)._asdict() | {"seconds": seconds},
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _means(terms: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """Returns the mean of each term over the episodes."""
    names = sorted({name for of_episode in terms for name in of_episode})
    return {name: sum(of_episode.get(name, 0.0) for of_episode in terms) / len(terms) for name in names}


def _run_id(folder: RunFolder) -> str:
    """Returns the id of the run, by which the ledger knows its groups. It is made once for a folder."""
    path = folder.path / RUN_ID
    if not path.is_file():
        replace(path, uuid.uuid4().hex.encode())
    return path.read_text(encoding="utf-8")


def _asked(wish: LiveWish, spec: RewardSpec, loaded: LoadedModel) -> Mapping[str, Any]:
    """Returns all that decides what comes out of a run, as JSON values."""
    left_out = {"tasks", "out", "rewards", "credit"} | ELSEWHERE
    told = {name: value for name, value in asdict(wish).items() if name not in left_out}
    tasks = [[load_spec(task.file).identity_hash, task.weight] for task in wish.tasks]
    return told | {"model": loaded.card.policy, "rewards": spec.hash, "tasks": tasks}
