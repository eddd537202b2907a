"""A campaign's best candidates, with their values and the chance that they are hits."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from sciagent.domain.answers.best import BestCandidate
from sciagent.domain.answers.values import ImportedValue, RungValue
from sciagent.domain.evidence import at_highest_rung
from sciagent.domain.jobs.states import Standing
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views import report_candidates as ask
from sciagent.store.views.history import StoredEvidence


def best(connection: Connection, row: CampaignRow, n: int) -> list[BestCandidate]:
    """Returns the n best candidates: hits first, then by depth reached and score. Vetoed candidates are left out.

    `p_hit` is 1 or 0 once a candidate is settled or dropped, and None before.
    """
    ranked = ask.best(connection, row, n, vetoed=False)
    ids = [candidate.id for candidate in ranked]
    answers, imported = ask.answers(connection, row, ids), ask.imported(connection, ids)
    return [
        BestCandidate(
            key=candidate.key,
            smiles=candidate.text,
            inchikey=candidate.inchikey,
            utility=candidate.utility,
            p_hit=float(candidate.hit) if candidate.standing in (Standing.SETTLED, Standing.DROPPED) else None,
            verified=candidate.standing == Standing.SETTLED,
            hit=candidate.hit,
            in_seeds=candidate.in_seeds,
            score=candidate.score,
            reason=candidate.reason,
            detail=candidate.detail,
            values={
                name: RungValue.of(measured, rung=answer.rung)
                for name, (answer, measured) in at_highest_rung(
                    ask.pooled_by_rung(answers.get(candidate.id, ()))
                ).items()
            },
            imported=imported_values(imported.get(candidate.id, ())),
        )
        for candidate in ranked
    ]


def imported_values(answers: Sequence[StoredEvidence]) -> tuple[ImportedValue, ...]:
    """Returns the imported values of a candidate, oldest first."""
    return tuple(
        ImportedValue.of(measured, source=answer.source, who=answer.who, at=answer.at)
        for answer in sorted(answers, key=lambda answer: answer.id)
        for measured in answer.measured
    )
