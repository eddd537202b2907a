"""Blind replicates by two persons on tablets: each sees nothing of the other until both have measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, Page, expect

from sciagent.store.database import tables as t
from sciagent.store.lab import tasks
from tests.browser.lab_server import LabServer, context_of, faults_of, running, scrolls_by
from tests.browser.test_lab import GAP, TABLET, VALUE, watched
from tests.lab.test_record_answers import place

pytestmark = pytest.mark.long


@pytest.fixture
def served(migrated_sqlite: Path, tmp_path: Path) -> Iterator[LabServer]:
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    with running(str(path), tmp_path, "{ahead: 18, replicates: 2, blind: true}") as server:
        yield server


def test_two_persons_measure_a_molecule_without_seeing_each_other(browser: Browser, served: LabServer) -> None:
    contexts = [context_of(browser, served, login, viewport=TABLET) for login in ("anna", "ben")]
    anna, ben = (watched(context) for context in contexts)
    with served.ledger.read() as connection:
        first = tasks.listed(connection)[0]
        one, two = sorted(tasks.of_candidate(connection, first.candidate_id), key=lambda task: task.replicate)
    measure(anna, one.id, "4.317")
    anna.goto(f"/tasks/{two.id}")
    expect(anna.locator("main")).to_contain_text("This task is for another person: you have measured this molecule")
    assert anna.locator(VALUE).count() == 0, "no form for a second measurement"
    candidate = f"/campaigns/gaps/candidates/{one.key}"
    for address in (f"/tasks/{one.id}", f"/tasks/{two.id}", candidate, "/campaigns/gaps", "/tasks"):
        ben.goto(address)
        text = ben.locator("body").inner_text().lower()
        assert "4.317" not in text and "anna" not in text, address
    assert faults_of(ben) == [] and scrolls_by(ben) <= 0
    measure(ben, two.id, "4.5")
    for page in (anna, ben):
        page.goto(candidate)
        for value in ("4.317", "4.5"):
            expect(page.locator("main")).to_contain_text(value)
    e = t.evidence.c
    with served.ledger.read() as connection:
        of_molecule = sa.and_(e.candidate_id == first.candidate_id, e.verifier == "lab.measurement")
        rows = connection.execute(sa.select(e.replicate, e.who).where(of_molecule).order_by(e.replicate)).all()
    assert [(row.replicate, row.who.partition(" ")[0]) for row in rows] == [(0, "anna"), (1, "ben")]
    assert place(served.built, one.id) == ("settled", "pass", True)
    for context in contexts:
        context.close()


def measure(page: Page, task: int, value: str) -> None:
    """Enters a value in the form of a task."""
    page.goto(f"/tasks/{task}")
    page.fill(VALUE, value)
    page.select_option(f"#unit-{GAP}", "eV")
    page.click("text=Save, and next")
    page.wait_for_url("**saved=**")
