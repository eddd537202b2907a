"""The guards of a run on the live ladder: the facts of its steps, read from the ledger."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, open_for_people
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import rewards
from sciagent.store.learning.rewards import RewardVersionRow
from sciagent.store.results.evidence import read_watermark
from sciagent.training.guard_watch import GuardWatch
from sciagent.training.guards.facts import EpisodeFacts, StepFacts
from sciagent.training.guards.guard import StopReason
from sciagent.training.guards.reading import episode_facts, has_promises
from sciagent.training.guards import GuardSettings
from sciagent.training.live.gathering import GatheredStep
from sciagent.training.live.settings import LiveWish

AGAIN = 3  # earlier steps whose episodes are read again, since the control may have answered late


def settings_of(wish: LiveWish) -> GuardSettings:
    """Returns the limits of a run's guards; `kl_budget` of the wish itself goes before."""
    stated = dict(wish.guards or {})
    if wish.kl_budget is not None:
        stated["kl_budget"] = wish.kl_budget
    return GuardSettings.model_validate(stated)


class RunGuards:
    """The guards of one run."""

    def __init__(self, wish: LiveWish, ledger: Ledger, folder: Path, done: int) -> None:
        """folder: of the run. done: the step of the checkpoint from which the run goes on."""
        self._ledger = ledger
        self._watch = GuardWatch(settings_of(wish), folder, done)
        self._campaigns: dict[int, Built] = {}  # by id
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
        policies = {version: by for of_step in self._versions.values() for version, by in of_step.items()}
        with self._ledger.read() as connection:
            rows = [rewards.get(connection, version) for version in policies]
            now = read_watermark(connection)
            for row in rows:
                if row.campaign_id not in self._campaigns:
                    name = rewards.campaign_of(connection, row.id)
                    self._campaigns[row.campaign_id] = open_for_people(self._ledger, name)
            facts = [each for row in rows for each in self._facts(connection, row, now, policies[row.id])]
        laws = sorted({(row.campaign_id, row.spec_hash, row.law or 0) for row in rows})
        specs = [(self._campaigns[row.campaign_id], RewardSpec.model_validate(row.spec)) for row in rows]
        step = StepFacts(
            step=number,
            kl=kl,
            rewards=" ".join(f"{campaign}:{spec[:12]}:{law}" for campaign, spec, law in laws),
            has_control=any(built.control is not None for built in self._campaigns.values()),
            has_promises=any(has_promises(built, spec) for built, spec in specs),
            episodes=tuple(facts),
        )
        self._watch.check(step)
        return list(self._watch.blind(number))

    def _facts(
        self, connection: Connection, version: RewardVersionRow, now: int, policy: int
    ) -> tuple[EpisodeFacts, ...]:
        rows, spec = rewards.of_version(connection, version.id), RewardSpec.model_validate(version.spec)
        policies = {row.trajectory_id: policy for row in rows}
        return episode_facts(self._campaigns[version.campaign_id], connection, rows, spec, now, policies)
