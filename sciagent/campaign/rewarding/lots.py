"""The lots that send candidates to the terminal rung with a known chance: those of `lottery`, or of the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.file.schedulers import LotterySpec, PricedSpec
from sciagent.rewards.estimators import CandidateState, Settlement
from sciagent.store.results import laws


class Lot(NamedTuple):
    """The lot of a candidate."""

    chance: float
    is_drawn: bool


class Lots:
    """The lots of a campaign as of a watermark."""

    def __init__(self, built: Built, connection: Connection, as_of: int) -> None:
        scheduler = built.spec.scheduler
        self._chance = scheduler.chance if isinstance(scheduler, LotterySpec) else None
        self._audit: Mapping[int, Lot] = {}
        if isinstance(scheduler, PricedSpec):
            log = laws.audit_log(connection, built.row.id, as_of)
            drawn = zip(log.ids, log.pi, log.lot, strict=True)
            self._audit = {id_: Lot(chance, lot < chance) for id_, chance, lot in drawn if chance > 0}

    @property
    def any(self) -> bool:
        """Whether any candidate has a lot."""
        return self._chance is not None or bool(self._audit)

    def of(self, candidate_id: int, state: CandidateState) -> Lot | None:
        """Returns the lot of a candidate that got as far as the lot; None for the others. state: under `lottery` it
        says whether the candidate was drawn."""
        if self._chance is not None:
            return None if state.chance is None else Lot(state.chance, state.settlement is not Settlement.OPEN)
        return self._audit.get(candidate_id)
