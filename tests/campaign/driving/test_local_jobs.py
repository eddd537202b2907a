"""Jobs of milliseconds, claimed ahead or together: each has its lease, its place in the budget and its evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.states_and_needs import CampaignState
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import reservations_and_bookings
from sciagent.store.views import campaign_counts_and_remarks

N = 60
MOLECULES = tuple(f"{'C' * a}O{'C' * b}" for a in range(1, 16) for b in range(1, 5) if a >= b or b > 15)[:N]
TEXT = """
campaign: quick
subject: molecule
objectives: [{{property: logp, max: 5}}]
ladder:
  - {{rung: quick, verifier: {verifier}, settings: {settings}}}
goal: {{kind: graded}}
budget: {budget}
proposer: {proposer}
scheduler: {{kind: exhaustive}}
workers: 2
"""


def open_driver(
    folder: Path,
    budget: str = "{core_seconds: 1000}",
    settings: str = "{}",
    proposer: str = "{kind: screen, file: molecules.smi, batch: 100}",
    verifier: str = "bad.quick",
) -> Driver:
    (folder / "molecules.smi").write_text("\n".join(MOLECULES) + "\n")
    text = TEXT.format(budget=budget, settings=settings, proposer=proposer, verifier=verifier)
    ledger = Ledger(str(folder / "sciagent.db"))
    return Driver(create_or_open(ledger, parse_spec(text, base=folder), text, "test").built)


def counted(ledger: Ledger, column: sa.Column[str], *conditions: sa.ColumnElement[bool]) -> dict[str, int]:
    query = sa.select(column, sa.func.count()).where(*conditions).group_by(column)
    with ledger.read() as connection:
        return {str(value): int(n) for value, n in connection.execute(query)}


@pytest.mark.parametrize("verifier", ["bad.quick", "bad.together"])
def test_each_job_has_its_rows_alone_or_together(tmp_path: Path, verifier: str) -> None:
    with open_driver(tmp_path, verifier=verifier) as driver:
        assert driver.run() is CampaignState.FINISHED
    ledger, n = driver.built.ledger, len(MOLECULES)
    paid = t.attempt.c.job_id.is_not(None)
    assert counted(ledger, t.job.c.state) == {"done": n}
    assert counted(ledger, t.attempt.c.state, paid) == {"done": n}
    assert counted(ledger, t.decision.c.action) == {"run": n}
    assert counted(ledger, t.cost_observation.c.resource) == {"core_seconds": n}
    assert counted(ledger, t.evidence.c.outcome, t.evidence.c.verifier == verifier) == {"ok": n}
    with ledger.read() as connection:
        e = t.evidence.c
        said = connection.execute(sa.select(e.diagnostics).where(e.verifier == verifier)).scalars().all()
        spent = connection.execute(sa.select(t.spend.c.amount).where(t.spend.c.rung_id.is_not(None))).scalars().all()
        assert reservations_and_bookings.reserved(connection, driver.built.row.id) == {}
    sizes = {one.get("batch", 1) for one in said}
    assert max(sizes) == (8 if verifier == "bad.together" else 1)
    assert all(amount > 0 for amount in spent)
    ledger.close()


def test_a_budget_by_count_is_met_exactly(tmp_path: Path) -> None:
    with open_driver(tmp_path, "{rungs: {quick: 17}}") as driver:
        assert driver.run() is CampaignState.BUDGET_SPENT
    assert counted(driver.built.ledger, t.job.c.state) == {"done": 17}
    driver.built.ledger.close()


def test_a_search_ends_when_nobody_can_be_verified_any_more(tmp_path: Path) -> None:
    search = "{kind: evolve, seeds: molecules.smi, batch: 4, ahead: 6}"
    with open_driver(tmp_path, "{rungs: {quick: 17}}", proposer=search) as driver:
        assert driver.run() is CampaignState.BUDGET_SPENT
    assert counted(driver.built.ledger, t.job.c.state) == {"done": 17}
    assert sum(counted(driver.built.ledger, t.proposal.c.status).values()) <= 17 + 6 + 2 * 4
    with driver.built.ledger.read() as connection:
        why = connection.execute(sa.select(t.campaign.c.stop_reason)).scalar_one()
    assert why.startswith("the budget by rung is used; ")
    driver.built.ledger.close()


def test_core_seconds_are_overrun_by_at_most_one_job_a_worker(tmp_path: Path) -> None:
    limit = 0.4
    with open_driver(tmp_path, f"{{core_seconds: {limit}}}", "{burn: 0.01}") as driver:
        assert driver.run() is CampaignState.BUDGET_SPENT
    ledger = driver.built.ledger
    with ledger.read() as connection:
        spent = campaign_counts_and_remarks.spent(connection, driver.built.row.id)["core_seconds"]
        a = t.attempt.c
        dearest = max(cost["core_seconds"] for cost in connection.execute(sa.select(a.cost)).scalars())
    assert 0 < counted(ledger, t.job.c.state)["done"] < len(MOLECULES)
    assert spent <= limit + 2 * dearest
    ledger.close()


def test_a_stop_gives_back_what_waits_and_the_next_run_does_it(tmp_path: Path) -> None:
    with open_driver(tmp_path) as driver:
        assert driver.run(_once(lambda: bool(driver.pace._seconds), driver.request_stop)) is CampaignState.INTERRUPTED
    ledger, paid = driver.built.ledger, t.attempt.c.job_id.is_not(None)
    after = counted(ledger, t.job.c.state)
    assert set(after) <= {"done", "queued"} and 0 < after["done"] < len(MOLECULES)
    assert set(counted(ledger, t.attempt.c.state, paid)) <= {"done", "cancelled"}
    with ledger.read() as connection:
        pending = campaign_counts_and_remarks.count(
            connection, t.campaign_candidate, t.campaign_candidate.c.standing == "pending"
        )
        assert pending == after.get("queued", 0)
    ledger.close()
    with open_driver(tmp_path) as again:
        assert again.run() is CampaignState.FINISHED
    assert counted(again.built.ledger, t.job.c.state) == {"done": len(MOLECULES)}
    assert counted(again.built.ledger, t.attempt.c.state, paid)["done"] == len(MOLECULES), "each was computed once"
    again.built.ledger.close()


def _once(when: Callable[[], bool], then: Callable[[], None]) -> Callable[[], None]:
    def on_step() -> None:
        if when():
            then()

    return on_step
