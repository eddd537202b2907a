"""Replicates of one rung on one candidate, pooled."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.lab import record_answers
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import tasks
from sciagent.store.results import evidence, pooled_replicates
from tests.lab.conftest import Make, make  # noqa: F401
from tests.lab.test_record_answers import entry
from tests.support.reported import Maker
from tests.support.rows import new_evidence


def test_experimental_values_are_pooled_within_one_phase(ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(ledger, tmp_path)
    made.enter(("CO",))
    values = (("water", 1.7), ("water", 1.9), ("hexane", 3.0))
    new = [
        new_evidence(
            made.ids[0],
            Measured("dipole", Level("experiment", phase=phase), Quantity(value, "D", 0.1)),
            verifier="import",
            replicate=i,
        )
        for i, (phase, value) in enumerate(values)
    ]
    with ledger.begin() as connection:
        evidence.record(connection, new)
    pooled = {}
    with ledger.read() as connection:
        for phase in ("water", "hexane", "toluene", "gas"):
            of_all = pooled_replicates.experimental_values(connection, made.ids, {"dipole": phase})
            pooled[phase] = {id_: by_name["dipole"].value for id_, by_name in of_all.items()}
    assert pooled["water"] == {made.ids[0]: pytest.approx(1.8)}
    assert pooled["hexane"] == {made.ids[0]: 3.0}
    assert pooled["toluene"] == {}
    assert pooled["gas"] == {}, "nothing says which of the two solvents is meant"


def test_two_replicates_are_one_answer_with_their_mean(make: Make) -> None:  # noqa: F811
    built = make(lab="{ahead: 4, replicates: 2}", budget="{lab_slots: 20}")
    computation = built.asked[0].verifier.computation
    with built.ledger.read() as connection:
        candidate_id = tasks.listed(connection)[0].candidate_id
        of_candidate = sorted(tasks.of_candidate(connection, candidate_id), key=lambda task: task.replicate)
        assert pooled_replicates.pooled_answers(connection, [candidate_id], computation) == {}
    for task, gap in zip(of_candidate, ("4.3 eV", "4.5 eV"), strict=True):
        record_answers.enter(built, task.id, entry(gap))
    with built.ledger.read() as connection:
        answer = pooled_replicates.pooled_answers(connection, [candidate_id], computation)[candidate_id]
        assert pooled_replicates.ids_with_replicates(connection, [candidate_id], computation) == {candidate_id}
    [measured] = answer.measured
    assert (measured.quantity.value, measured.quantity.n) == (pytest.approx(4.4), 2)
