"""Parts of a campaign's candidates: those before a moment, or candidates that were drawn. Views of a campaign can be
limited to such a part."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from sciagent.store.database import tables as t

_CC = t.campaign_candidate.c


class CandidatePart(NamedTuple):
    """A part of a campaign's candidates; without limits, all of them."""

    end: int | None = None
    """Only candidates with a lower sequence number; None: all."""
    seqs: tuple[int, ...] | None = None
    """Only candidates with these sequence numbers; None: all."""

    @property
    def condition(self) -> sa.ColumnElement[bool]:
        """The condition on rows of `campaign_candidate`."""
        limits = [] if self.end is None else [_CC.seq < self.end]
        limits += [] if self.seqs is None else [_CC.seq.in_(self.seqs)]
        return sa.and_(sa.true(), *limits)

    @property
    def is_whole(self) -> bool:
        return self == WHOLE

    def holds(self, seq: int) -> bool:
        """Returns whether the candidate with a sequence number belongs to the part."""
        return (self.end is None or seq < self.end) and (self.seqs is None or seq in self.seqs)


WHOLE = CandidatePart()
