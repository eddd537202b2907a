"""What the evidence up to a watermark says of candidates, whatever the campaign made of it and in whatever order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.derived_values import with_derived
from sciagent.campaign.core.judge import Answer, Place, place
from sciagent.campaign.core.record import answer_of
from sciagent.domain.jobs.states import Standing
from sciagent.domain.outcomes import Verdict
from sciagent.rewards.estimators import CandidateState, Settlement
from sciagent.store.campaign_state import calibrations
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.results import evidence, pooled

CHUNK = 2000
_REFUSALS = (Verdict.FAIL, Verdict.NOT_APPLICABLE)


def rungs_as_of(built: Built, connection: Connection, as_of: int) -> tuple[BuiltRung, ...]:
    """Returns the rungs with the calibrations that they had at a watermark."""
    fits = calibrations.current(connection, built.row.id, as_of)
    return tuple(replace(rung, all_fits=fits.get(rung.id, {})) for rung in built.rungs)


def answers_as_of(
    built: Built, connection: Connection, candidate_ids: Sequence[int], as_of: int
) -> dict[int, list[Answer]]:
    """Returns the judged answers of all rungs at a watermark, by candidate id, in the order of the ladder."""
    source = evidence.evidence_as_of(as_of)
    answers: dict[int, list[Answer]] = {id_: [] for id_ in candidate_ids}
    for rung in rungs_as_of(built, connection, as_of):
        read = pooled.pooled_answers(connection, candidate_ids, rung.verifier.computation, source=source)
        for id_, result in read.items():
            answers[id_].append(answer_of(rung, with_derived(rung, result, answers[id_])))
    return answers


def states(built: Built, connection: Connection, candidate_ids: Sequence[int], as_of: int) -> dict[int, CandidateState]:
    """Returns what is known of candidates at a watermark, by candidate id, without the law's expectations.

    Only evidence and the decisions to buy it count. People's holds, vetoes and promotions do not: a reward says what
    the ladder found.
    """
    found: dict[int, CandidateState] = {}
    for start in range(0, len(candidate_ids), CHUNK):
        ids = candidate_ids[start : start + CHUNK]
        answers = answers_as_of(built, connection, ids, as_of)
        ordered = _ordered(connection, built.row.id, ids, as_of)
        for id_ in ids:
            where = place(built.rules, built.objectives, answers[id_])
            chances = ordered.get(id_, {})
            found[id_] = _state(built, where, {a.position for a in answers[id_]}, chances)
    return found


def _state(built: Built, where: Place, answered: Iterable[int], chances: Mapping[int, float]) -> CandidateState:
    """Returns a candidate's state. answered: positions of rungs with an answer. chances: by position of the rungs that
    were ordered, the probability of the order."""
    known = set(answered)
    chance = chances.get(built.terminal)
    if where.standing is Standing.SETTLED:
        hits = built.spec.goal.kind == "hits" and any(o.accept for o in built.objectives)
        return CandidateState(Settlement.ANSWERED, float(where.is_hit) if hits else where.utility, chance=chance)
    if where.standing is Standing.DROPPED:
        settlement = Settlement.REFUSED if where.verdict in _REFUSALS else Settlement.UNDECIDED
        return CandidateState(settlement, chance=chance)
    lacks_a_check = any(rung.rules.position not in known for rung in built.fast)
    is_ordered = any(position not in known for position in chances)
    return CandidateState(Settlement.UNDECIDED if lacks_a_check or is_ordered else Settlement.OPEN, chance=chance)


def _ordered(
    connection: Connection, campaign_id: int, candidate_ids: Sequence[int], as_of: int
) -> dict[int, dict[int, float]]:
    """Returns by candidate id the rungs that the campaign had ordered by a watermark: position to probability."""
    d, r = t.decision.c, t.rung.c
    query = (
        sa.select(d.candidate_id, r.position, d.propensity)
        .select_from(t.decision.join(t.rung, r.id == d.rung_id))
        .where(d.campaign_id == campaign_id, d.action == "run", d.watermark < as_of)
        .where(among(connection, d.candidate_id, candidate_ids))
        .order_by(d.id.desc())  # of several orders the first one counts
    )
    ordered: dict[int, dict[int, float]] = {}
    for id_, position, propensity in connection.execute(query):
        ordered.setdefault(int(id_), {})[int(position)] = float(propensity)
    return ordered
