"""The guards of a run on the live ladder: they are told each step what the ledger says of its episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import open_for_people
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import groups, rewards
from sciagent.training.guards.facts import EpisodeFacts, StepFacts
from sciagent.training.guards.guard import StopReason
from sciagent.training.guards.reading import episode_facts, has_promises
from sciagent.training.guards.settings import GuardSettings
from sciagent.training.guards.watch import GuardWatch
from sciagent.training.live.group_rows import RewardedGroup


class RunGuards:
    """The guards of one run."""

    def __init__(
        self,
        settings: GuardSettings,
        folder: Path,
        done: int,
        ledger: Ledger,
        campaigns: Sequence[str],
        spec: RewardSpec,
    ) -> None:
        """folder: of the run. done: the step of the checkpoint from which it goes on."""
        self._watch = GuardWatch(settings, folder, done)
        self._ledger, self._spec = ledger, spec
        self._campaigns = {name: open_for_people(ledger, name) for name in campaigns}
        self._has_control = any(built.control is not None for built in self._campaigns.values())
        self._has_promises = any(has_promises(built, spec) for built in self._campaigns.values())

    @property
    def stopped(self) -> StopReason | None:
        """Why a guard has stopped the run already; None if none has."""
        return self._watch.stopped

    def check(
        self, step: int, kl: float | None, sampled: Mapping[int, Sequence[RewardedGroup]]
    ) -> tuple[StopReason | None, Sequence[str]]:
        """Returns why the run has to stop after a step, None if it may go on, and what the guards have to say.

        sampled: groups of this step, and earlier ones whose rewards changed, by the number of steps after which their
        policy stood.
        """
        facts, laws = list[EpisodeFacts](), set[str]()
        with self._ledger.read() as connection:
            for policy, found in sampled.items():
                for group in found:
                    facts += self._of_group(connection, group, policy)
                    laws.add(f"{group.campaign} {rewards.get(connection, group.version).law}")
        about = StepFacts(
            step=step,
            kl=kl,
            rewards=" ".join([self._spec.hash, *sorted(laws)]) if self._has_promises else self._spec.hash,
            has_control=self._has_control,
            has_promises=self._has_promises,
            episodes=tuple(facts),
        )
        return self._watch.check(about), self._watch.blind(step)

    def _of_group(self, connection: Connection, group: RewardedGroup, policy: int) -> Sequence[EpisodeFacts]:
        ids = list(groups.trajectories_of(connection, [group.id]))
        version = rewards.get(connection, group.version)
        rows = rewards.of_version(connection, group.version, ids)
        built, spec = self._campaigns[group.campaign], self._spec
        return episode_facts(built, connection, rows, spec, version.watermark, dict.fromkeys(ids, policy))
