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
        limits = list[sa.ColumnElement[bool]]()
        if self.end is not None:
            limits.append(_CC.seq < self.end)
        if self.seqs is not None:
            limits.append(_CC.seq.in_(self.seqs))
        return sa.and_(sa.true(), *limits)

    @property
    def is_whole(self) -> bool:
        """Whether the part has no limits."""
        return self == WHOLE

    def holds(self, seq: int) -> bool:
        """Returns whether the candidate with a sequence number belongs to the part."""
        is_before_end = self.end is None or seq < self.end
        return is_before_end and (self.seqs is None or seq in self.seqs)


WHOLE = CandidatePart()
