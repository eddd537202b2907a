"""Several proposers of one campaign, side by side: who has proposed least goes next, and who is quick waits for who is
slow, so that each has its share of the budget whatever its answers take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sciagent.campaign.core.build import Built
from sciagent.campaign.proposing.sources import Source, Taken
from sciagent.campaign.spec.sources import OneProposerSpec, SeveralSpec
from sciagent.domain.cost import Cost
from sciagent.store.campaign_state import trajectories


@dataclass
class _Member:
    """made: proposals so far; a turn that brought none counts as one. barren: turns in a row that might have brought
    something new and did not."""

    source: Source
    spec: OneProposerSpec
    made: int
    barren: int = 0
    is_done: bool = False


class SideBySide:
    """Implements `proposing.Source`. sources: of each proposer by its name."""

    patience = 1  # it counts for each of them what is barren, and never says so of a turn of its own

    def __init__(self, built: Built, sources: Mapping[str, Source]) -> None:
        chosen = built.spec.proposer
        if not isinstance(chosen, SeveralSpec):
            raise TypeError("for several proposers")
        with built.ledger.read() as connection:
            made = trajectories.proposals_by(connection, built.row.id)
        self._lead = chosen.lead
        self._members = [_Member(source, chosen.proposers[name], made.get(name, 0)) for name, source in sources.items()]
        self._next: _Member | None = None

    def _open(self) -> list[_Member]:
        return [one for one in self._members if not one.is_done]

    @property
    def total(self) -> int | None:
        totals = [one.source.total for one in self._members]
        return None if None in totals else sum(one for one in totals if one is not None)

    @property
    def is_busy(self) -> bool:
        return any(one.source.is_busy for one in self._open())

    @property
    def is_ready(self) -> bool:
        return any(one.source.is_ready for one in self._open())

    def prepare(self) -> bool:
        there = self._open()
        least = min((one.made for one in there), default=0)
        ready = [one for one in there if one.made < least + self._lead and one.source.prepare()]
        self._next = min(ready, key=lambda one: one.made, default=None)
        return self._next is not None or not there

    def take(self, limit: int) -> Taken | None:
        """The turn of who is next; None once all of them have nothing left."""
        while (member := self._next) is not None:
            taken = member.source.take(min(limit, member.spec.batch))
            if taken is not None:
                member.made += max(taken.n_proposals, 1)
                member.barren = member.barren + 1 if taken.barren else 0
                member.is_done = member.barren >= member.source.patience
                return taken._replace(barren=False)
            member.is_done = True
            if not self.prepare():
                return Taken(0, Cost(), barren=False)  # the others are at work
        return None

    def close(self) -> None:
        for one in self._members:
            one.source.close()
