"""Samples of tasks: the wrong vial is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import sqlalchemy as sa

from sciagent.errors import UsageError
from sciagent.lab import claims_costs_and_vials, record_answers
from sciagent.store.database import tables as t
from sciagent.store.lab import samples, tasks
from tests.lab.conftest import Make
from tests.lab.test_record_answers import entry, task_ids


def test_the_vial_of_another_compound_is_refused_and_nothing_is_written(make: Make) -> None:
    built = make()
    first, second, _ = task_ids(built)
    right = claims_costs_and_vials.register(built, first, "ben", "HCl, 1 H2O", "made", purity=0.98, lot="AB-12")
    wrong = claims_costs_and_vials.register(built, second, "ben", "free base", "bought")
    with pytest.raises(UsageError, match=re.escape(f"another compound: {wrong.code} is not of task {first}")):
        record_answers.enter(built, first, replace(entry(), sample=wrong.code))
    with pytest.raises(UsageError, match="was misread"):
        record_answers.enter(built, first, replace(entry(), sample="0" * 10 + "1"))
    with built.ledger.begin() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.submission)).scalar() == 0
        samples.set_state(connection, right.id, "empty")
    with pytest.raises(UsageError, match=re.escape(f"the vial {right.code} is empty")):
        record_answers.enter(built, first, replace(entry(), sample=right.code))
    with built.ledger.begin() as connection:
        samples.set_state(connection, right.id, "ok")
    record_answers.enter(built, first, replace(entry(), sample=right.code.lower()))
    with built.ledger.read() as connection:
        assert connection.execute(sa.select(t.submission.c.sample_id)).scalar_one() == right.id
        task = tasks.find(connection, first)
        assert task is not None and task.code == right.code
        [kept] = samples.of_candidate(connection, task.candidate_id)
        assert (kept.form, kept.purity, kept.lot, kept.source) == ("HCl, 1 H2O", 0.98, "AB-12", "made")


@pytest.mark.parametrize(
    ("form", "source", "purity", "fault"),
    [
        (" ", "made", 1.0, "in which form"),
        ("base", "found", 1.0, "is no source"),
        ("base", "made", 98.0, "no fraction"),
    ],
)
def test_a_sample_is_described_in_full(make: Make, form: str, source: str, purity: float, fault: str) -> None:
    built = make()
    with pytest.raises(UsageError, match=fault):
        claims_costs_and_vials.register(built, task_ids(built)[0], "ben", form, source, purity=purity)
