"""Reads the best candidates of a campaign and what it has measured of them, for proposers."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.domain.campaigns.scripts import MeasuredCandidate
from sciagent.domain.ports import Scored
from sciagent.store.campaign_state import standings
from sciagent.store.database.parts import WHOLE, CandidatePart
from sciagent.store.results import candidates, pooled

MOST = 10_000  # candidates; those with the best score


def best_candidates(connection: Connection, built: Built, n: int, part: CandidatePart = WHOLE) -> dict[int, Scored]:
    """Returns the n candidates of a part of the campaign with the highest score, best first, by ledger id."""
    rows = standings.top(connection, built.row.id, n, part)
    notations = candidates.notations(connection, built.subject, {row[0]: row[2] for row in rows})
    return {
        id_: Scored(key, notations[id_], value, depth, seeds, seq, operation or "")
        for id_, key, _, value, depth, seeds, seq, operation in rows
    }


def measured_candidates(connection: Connection, built: Built) -> list[MeasuredCandidate]:
    """Returns the candidates that have a score, best first, with the results of the terminal rung."""
    top = best_candidates(connection, built, MOST)
    rung = built.rungs[built.terminal]
    derived = [prop.settings_hash for prop in rung.spec.derived]
    known = pooled.values_of(connection, list(top), rung.verifier.computation, derived, rung.fits)
    return [
        MeasuredCandidate(
            one.text, one.score, one.seq, {name: q.value for name, q in (known.get(id_) or {}).items()}, one.key
        )
        for id_, one in top.items()
    ]
