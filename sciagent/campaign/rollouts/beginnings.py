"""The beginnings of groups: which candidates of the campaign their episodes see."""

from __future__ import annotations

import random
import re
from typing import Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.parts import CandidatePart

PATTERN = r"^(now|seeds)(:[1-9][0-9]{0,2})?$"
_CC = t.campaign_candidate.c


class GroupBeginning(NamedTuple):
    """The candidates that the episodes of a group see."""

    of: Literal["now", "seeds"]
    """`now`: all that the campaign has; `seeds`: what it had before the first proposal of a model."""
    drawn: int | None
    """Number of those with a score that are drawn by the seed of the group; None: all are seen."""


def beginning(text: str) -> GroupBeginning:
    """Reads `now`, `seeds`, or one of them with the number of drawn candidates, as in `seeds:8`. Raises UsageError."""
    if re.match(PATTERN, text) is None:
        raise UsageError(f'from: "{text}" is none of now, seeds, now:N and seeds:N with N from 1 to 999')
    of, _, number = text.partition(":")
    return GroupBeginning("seeds" if of == "seeds" else "now", int(number) if number else None)


def part_of(connection: Connection, campaign_id: int, begins: GroupBeginning, seed: int) -> CandidatePart:
    """Returns the candidates that a group sees. seed: of the group."""
    end = None
    if begins.of == "seeds" and (end := _first_of_a_model(connection, campaign_id)) is None:
        end = next_seq(connection, campaign_id)
    return CandidatePart(end, _drawn(connection, campaign_id, end, begins.drawn, seed) if begins.drawn else None)


def _drawn(connection: Connection, campaign_id: int, end: int | None, number: int, seed: int) -> tuple[int, ...]:
    mine = (_CC.campaign_id == campaign_id, _CC.score.is_not(None), CandidatePart(end).condition)
    known = connection.execute(sa.select(_CC.seq).where(*mine).order_by(_CC.seq)).scalars().all()
    return tuple(sorted(random.Random(seed).sample(known, min(number, len(known)))))


def next_seq(connection: Connection, campaign_id: int) -> int:
    """Returns the sequence number that the campaign's next candidate gets."""
    last = connection.execute(sa.select(sa.func.max(_CC.seq)).where(_CC.campaign_id == campaign_id)).scalar()
    return 0 if last is None else int(last) + 1


def _first_of_a_model(connection: Connection, campaign_id: int) -> int | None:
    """Returns the lowest sequence number of a candidate that a model proposed; None if there is none."""
    p, u = t.proposal.c, t.turn.c
    query = sa.select(_CC.seq).join(t.proposal, p.id == _CC.proposal_id).join(t.turn, u.id == p.turn_id)
    query = query.where(_CC.campaign_id == campaign_id, u.message.is_not(None))
    seq = connection.execute(query.order_by(_CC.seq).limit(1)).scalar()
    return None if seq is None else int(seq)
