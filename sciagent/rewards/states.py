"""Derives the state of candidates from the evidence up to a watermark.

Neither the order in which the evidence arrived nor the standings that the campaign stored play a part. Only which of
several candidates that relaxed to one structure was the first follows from the order; the ledger keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.derived_values import with_derived
from sciagent.campaign.core.judge import Answer, Place, place
from sciagent.campaign.core.record import answer_of
from sciagent.campaign.core.same_structure import known_likenesses
from sciagent.campaign.file.schedulers import LotterySpec
from sciagent.domain.outcomes import Verdict
from sciagent.domain.states import Standing
from sciagent.rewards.estimators import CandidateState, Settlement
from sciagent.scheduling.audit import lots
from sciagent.store.campaign_state import calibrations
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.results import evidence, laws, pooled

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

    Only evidence, the decisions to buy it and the likenesses of relaxed structures count. People's holds, vetoes and
    promotions do not: a reward says what the ladder found. Under the scheduler `lottery`, what the terminal rung said
    of a candidate that was not drawn does not count either, whoever asked it: the drawn ones stand for all.
    """
    found: dict[int, CandidateState] = {}
    for start in range(0, len(candidate_ids), CHUNK):
        ids = candidate_ids[start : start + CHUNK]
        answers = answers_as_of(built, connection, ids, as_of)
        alike = known_likenesses(connection, built, ids, as_of)
        ordered, drawn = _ordered(connection, built.row.id, ids, as_of), _drawn(built, connection, ids)
        for id_ in ids:
            known = [a for a in answers[id_] if a.position < built.terminal or drawn.get(id_, True)]
            where = place(built.rules, built.objectives, known, likeness=alike.get(id_))
            state = _state(built, where, {a.position for a in known}, ordered.get(id_, frozenset()))
            found[id_] = _by_lot(built, state, where, drawn[id_]) if id_ in drawn else state
    return found


def _state(built: Built, where: Place, answered: Set[int], ordered: Set[int]) -> CandidateState:
    """Returns a candidate's state. answered, ordered: positions of rungs with an answer, and of those decided on."""
    if where.standing is Standing.SETTLED:
        hits = built.spec.goal.kind == "hits" and any(o.accept for o in built.objectives)
        return CandidateState(Settlement.ANSWERED, float(where.is_hit) if hits else where.utility)
    if where.standing is Standing.DROPPED:
        if where.verdict not in _REFUSALS:
            return CandidateState(Settlement.UNDECIDED)
        return CandidateState(Settlement.REFUSED, screened=built.rungs[where.position].is_fast)
    due = {rung.rules.position for rung in built.fast} | ordered
    return CandidateState(Settlement.UNDECIDED if due - answered else Settlement.OPEN)


def _by_lot(built: Built, state: CandidateState, where: Place, is_drawn: bool) -> CandidateState:
    """Returns the state of a candidate of a lottery. One that was not drawn is open once all rungs below the terminal
    one have answered; one that was drawn is undecided until the terminal rung has answered, too."""
    assert isinstance(built.spec.scheduler, LotterySpec)
    if state.settlement is Settlement.REFUSED and where.position < built.terminal:
        return state  # thrown out before the lot
    chance = built.spec.scheduler.chance
    is_waiting = where.standing is Standing.OPEN and (is_drawn or where.position < built.terminal)
    return state._replace(settlement=Settlement.UNDECIDED if is_waiting else state.settlement, chance=chance)


def _drawn(built: Built, connection: Connection, candidate_ids: Sequence[int]) -> dict[int, bool]:
    """Returns by candidate id whether a lot sends it to the terminal rung; empty unless the scheduler draws lots."""
    scheduler = built.spec.scheduler
    if not isinstance(scheduler, LotterySpec):
        return {}
    keys = laws.keys(connection, candidate_ids)
    drawn = lots(built.spec.seed, keys.values()) < scheduler.chance
    return dict(zip(keys, map(bool, drawn), strict=True))


def _ordered(connection: Connection, campaign_id: int, candidate_ids: Sequence[int], as_of: int) -> dict[int, set[int]]:
    """Returns the positions of the rungs that the campaign had decided to run by a watermark, by candidate id."""
    d, r = t.decision.c, t.rung.c
    query = (
        sa.select(d.candidate_id, r.position)
        .select_from(t.decision.join(t.rung, r.id == d.rung_id))
        .where(d.campaign_id == campaign_id, d.action == "run", d.watermark < as_of)
        .where(among(connection, d.candidate_id, candidate_ids))
    )
    ordered: dict[int, set[int]] = {}
    for id_, position in connection.execute(query):
        ordered.setdefault(int(id_), set()).add(int(position))
    return ordered
