"""Reads what a campaign has measured, for proposers that learn from it."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.domain.campaigns.scripts import MeasuredCandidate
from sciagent.store.campaign_state import standings
from sciagent.store.results import pooled

MOST = 10_000  # candidates; those with the best score


def measured_candidates(connection: Connection, built: Built) -> list[MeasuredCandidate]:
    """Returns the candidates that have a score, best first, with the results of the terminal rung."""
    top = standings.top(connection, built.row.id, MOST)
    rung = built.rungs[built.terminal]
    derived = [prop.settings_hash for prop in rung.spec.derived]
    known = pooled.values_of(connection, [row[0] for row in top], rung.verifier.computation, derived, rung.fits)
    return [
        MeasuredCandidate(text, score, seq, {name: q.value for name, q in (known.get(id_) or {}).items()})
        for id_, _, text, score, _, _, seq, _ in top
    ]
