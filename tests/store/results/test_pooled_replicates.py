"""Replicates of one rung on one candidate, pooled."""

from __future__ import annotations

import pytest

from sciagent.lab import record_and_review_answers
from sciagent.store.lab import tasks
from sciagent.store.results import pooled_replicates
from tests.lab.conftest import Make, make  # noqa: F401
from tests.lab.test_record_and_review_answers import entry


def test_two_replicates_are_one_answer_with_their_mean(make: Make) -> None:  # noqa: F811
    built = make(lab="{ahead: 4, replicates: 2}", budget="{lab_slots: 20}")
    computation = built.asked[0].verifier.computation
    with built.ledger.read() as connection:
        candidate_id = tasks.listed(connection)[0].candidate_id
        of_candidate = sorted(tasks.of_candidate(connection, candidate_id), key=lambda task: task.replicate)
        assert pooled_replicates.pooled_answers(connection, [candidate_id], computation) == {}
    for task, gap in zip(of_candidate, ("4.3 eV", "4.5 eV"), strict=True):
        record_and_review_answers.enter(built, task.id, entry(gap))
    with built.ledger.read() as connection:
        answer = pooled_replicates.pooled_answers(connection, [candidate_id], computation)[candidate_id]
        assert pooled_replicates.ids_with_replicates(connection, [candidate_id], computation) == {candidate_id}
    [measured] = answer.measured
    assert (measured.quantity.value, measured.quantity.n) == (pytest.approx(4.4), 2)
