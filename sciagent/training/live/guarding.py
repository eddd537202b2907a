"""The guards of a run on the live ladder: the facts of its steps, read from the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import rewards
from sciagent.store.learning.rewards import RewardVersionRow
from sciagent.store.results.evidence import read_watermark
from sciagent.training.guards.facts import EpisodeFacts, StepFacts
from sciagent.training.guards.guard import StopReason
from sciagent.training.guards.reading import episode_facts, has_promises
from sciagent.training.guards.settings import GuardSettings
from sciagent.training.guards.watch import GuardWatch
from sciagent.training.live.gathering import GatheredStep
from sciagent.training.live.wish import LiveWish

AGAIN = 3  # earlier steps whose episodes are read again, since the control may have answered late


def settings_of(wish: LiveWish) -> GuardSettings:
    """Returns the limits of a run's guards; `kl_budget` of the wish itself goes before."""
    stated = dict(wish.guards or {})
    if wish.kl_budget is not None:
        stated["kl_budget"] = wish.kl_budget
    return GuardSettings.model_validate(stated)


class RunGuards:
    """The guards of one run."""

    def __init__(
        self, wish: LiveWish, ledger: Ledger, spec: RewardSpec, tasks: Sequence[Built], folder: Path, done: int
    ) -> None:
        """spec: of the rewards. tasks: the campaigns. done: the step of the checkpoint from which the run goes on."""
        self._ledger, self._spec, self._tasks = ledger, spec, {built.row.id: built for built in tasks}
        self._watch = GuardWatch(settings_of(wish), folder, done)
        self._versions: dict[int, dict[int, int]] = {}  # by step: number of the policy by version of rewards

    def stopped(self) -> StopReason | None:
        """Returns why a guard has stopped the run; None if none has."""
        return self._watch.stopped

    def check(self, gathered: GatheredStep, kl: float | None, policy: int) -> list[str]:
        """Checks a step; `stopped` then says whether the run has to stop. Returns remarks on the guards themselves.

        policy: the number of steps after which the policy stood that sampled the step.
        """
        number = gathered.number
        groups = [*gathered.trained, *gathered.dropped]
        self._versions[number] = dict.fromkeys(sorted({group.version for group in groups}), policy)
        self._versions.pop(number - AGAIN, None)
        built = self._tasks.values()
        with self._ledger.read() as connection:
            known = {
                version: rewards.get(connection, version) for of_step in self._versions.values() for version in of_step
            }
            now = read_watermark(connection)
            facts = [each for row in known.values() for each in self._facts(connection, row, now)]
        laws = sorted({(row.campaign_id, row.spec_hash, row.law or 0) for row in known.values()})
        step = StepFacts(
            step=number,
            kl=kl,
            rewards=" ".join(f"{campaign}:{spec[:12]}:{law}" for campaign, spec, law in laws),
            has_control=any(each.control is not None for each in built),
            has_promises=any(has_promises(each, self._spec) for each in built),
            episodes=tuple(facts),
        )
        self._watch.check(step)
        return list(self._watch.blind(number))

    def _facts(self, connection: Connection, version: RewardVersionRow, now: int) -> tuple[EpisodeFacts, ...]:
        rows = rewards.of_version(connection, version.id)
        policy = next(of_step[version.id] for of_step in self._versions.values() if version.id in of_step)
        policies = {row.trajectory_id: policy for row in rows}
        return episode_facts(self._tasks[version.campaign_id], connection, rows, self._spec, now, policies)
