"""Several proposers in one campaign. The next turn is that of the proposer with the fewest proposals. A fast proposer
waits for slower ones, so that each gets its share of the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sciagent.campaign.core.build import Built
from sciagent.campaign.proposing.sources import Source, TurnResult
from sciagent.campaign.spec.sources import OneProposerSpec, SeveralSpec
from sciagent.domain.cost import Cost
from sciagent.store.campaign_state import trajectories


@dataclass
class _Member:
    """One proposer of the campaign."""

    source: Source
    spec: OneProposerSpec
    made: int
    """Number of proposals so far; a turn without proposals counts as one."""
    barren: int = 0
    """Number of successive turns without a new candidate."""
    is_done: bool = False


class SideBySide:
    """The source that combines several proposers. sources: by the proposer's name."""

    patience = 1  # barren turns are counted per proposer here; no turn is reported as barren

    def __init__(self, built: Built, sources: Mapping[str, Source]) -> None:
        chosen = built.spec.proposer
        assert isinstance(chosen, SeveralSpec)
        with built.ledger.read() as connection:
            counts = trajectories.proposals_by(connection, built.row.id)
        self._lead = chosen.lead
        self._members = [
            _Member(source, chosen.proposers[name], counts.get(name, 0)) for name, source in sources.items()
        ]
        self._next: _Member | None = None

    def _open(self) -> list[_Member]:
        return [member for member in self._members if not member.is_done]

    @property
    def total(self) -> int | None:
        totals = [member.source.total for member in self._members]
        return None if None in totals else sum(total for total in totals if total is not None)

    @property
    def is_busy(self) -> bool:
        return any(member.source.is_busy for member in self._open())

    @property
    def is_ready(self) -> bool:
        return any(member.source.is_ready for member in self._open())

    def prepare(self) -> bool:
        open_members = self._open()
        least = min((member.made for member in open_members), default=0)
        ready = [member for member in open_members if member.made < least + self._lead and member.source.prepare()]
        self._next = min(ready, key=lambda member: member.made, default=None)
        return self._next is not None or not open_members

    def take(self, limit: int) -> TurnResult | None:
        """Runs the turn of the next proposer; returns None if all proposers are exhausted."""
        while (member := self._next) is not None:
            taken = member.source.take(min(limit, member.spec.batch))
            if taken is not None:
                member.made += max(taken.n_proposals, 1)
                member.barren = member.barren + 1 if taken.barren else 0
                member.is_done = member.barren >= member.source.patience
                return taken._replace(barren=False)
            member.is_done = True
            if not self.prepare():
                return TurnResult(0, Cost(), barren=False)  # other proposers are busy
        return None

    def close(self) -> None:
        for member in self._members:
            member.source.close()
