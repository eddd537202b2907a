from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts
from sciagent.store.learning import reward_inputs
from sciagent.store.results.evidence import read_watermark
from tests.support.reported import GFN2, PBE0, gap
from tests.support.rows import SETTINGS
from tests.support.talked import Talker


def test_a_candidate_costs_what_its_paid_attempts_did_with_those_that_failed(ledger: Ledger, tmp_path: Path) -> None:
    made = Talker(ledger, tmp_path)
    trajectory = made.begin("alpha", 1)
    made.say(trajectory, 0, "CCO")
    made.enter(("CCO",))
    made.answer(0, 0, gap(1.0, GFN2), seconds=5.0, job=False)  # a fast rung, which its turn pays for
    made.answer(0, 1, gap(2.0, GFN2), seconds=2.0)
    made.answer(0, 2, outcome=Outcome.TIMEOUT, reason=Reason.SCF_NOT_CONVERGED, seconds=30.0)
    with ledger.read() as connection:
        before = read_watermark(connection)
    made.answer(0, 2, gap(4.3, PBE0), seconds=60.0, job=False)
    paid = [Computation(f"toy{rung}", "1", SETTINGS) for rung in (1, 2)]
    with ledger.read() as connection:
        now = read_watermark(connection)
        found = [reward_inputs.costs_of(connection, made.row.id, paid, made.ids, as_of) for as_of in (before, now)]
    assert [costs[made.ids[0]] for costs in found] == [Cost(core_seconds=32.0), Cost(core_seconds=92.0)]


def test_a_lost_attempt_costs_what_it_had_cost_by_then_until_its_worker_comes_back(
    ledger: Ledger, tmp_path: Path
) -> None:
    made = Talker(ledger, tmp_path)
    made.say(made.begin("alpha", 1), 0, "CCO")
    made.enter(("CCO",))
    made.answer(0, 2, outcome=Outcome.LOST, reason=Reason.LEASE_EXPIRED, seconds=30.0)
    with ledger.begin() as connection:
        lost = read_watermark(connection)
        [id_] = connection.execute(sa.select(t.attempt.c.id)).scalars()
        raised = sa.update(t.attempt).where(t.attempt.c.id == id_).values(cost={"core_seconds": 30.7}, state="stale")
        connection.execute(raised)
        attempts.mark_late(connection, {id_: {"core_seconds": 30.0}})
    with ledger.read() as connection:
        marks = lost, read_watermark(connection)
        found = [reward_inputs.costs_of(connection, made.row.id, [], made.ids, as_of) for as_of in marks]
    assert marks[1] > marks[0]
    assert [costs[made.ids[0]] for costs in found] == [Cost(core_seconds=30.0), Cost(core_seconds=30.7)]


def test_turns_come_in_order_with_their_proposals_and_equal_conversations_share_a_state(
    ledger: Ledger, tmp_path: Path
) -> None:
    made = Talker(ledger, tmp_path)
    ids = []
    for number in (1, 2):
        ids.append(made.begin("alpha", number))
        for place, text in enumerate(("CCO", "CCN", f"{'C' * number}S")):
            made.say(ids[-1], place, text, seen="new")
            made.propose_text(text)
    with ledger.read() as connection:
        now = read_watermark(connection) + 1
        assert [row.number for row in reward_inputs.episodes(connection, made.row.id, now)] == [1, 2]
        assert reward_inputs.episodes(connection, made.row.id, 0) == []
        turns = reward_inputs.turns_of(connection, ids, now)
    first, second = (turns[id_] for id_ in ids)
    assert [turn.number for turn in first] == [0, 1, 2]
    assert [turn.state for turn in first] == [turn.state for turn in second]
    assert len({turn.state for turn in first}) == 3
    assert [[p.status for p in turn.proposals] for turn in first] == [["refused"]] * 3
    assert first[0].cost == Cost(core_seconds=0.5, llm_tokens=150.0)
