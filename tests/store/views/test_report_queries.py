"""What a report asks: counts and sums that add up, on both databases, and never a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import progress_and_comparisons as views
from sciagent.store.views.report_candidates import (
    best_candidates,
    candidates_in_order,
    imported_answers,
    origin_of,
    rung_answers,
)
from sciagent.store.views.report_queries import (
    amendments,
    booked_costs,
    directives,
    events,
    funnel,
    has_measured,
    measured_by,
    proposals,
    proposals_without_candidate,
    rejection_reasons,
    reused_answers,
)
from tests.support.query_plans import plan_of, scans
from tests.support.reported import Maker, dyes, spec


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Maker:
    return dyes(ledger, tmp_path)


def test_the_funnel_adds_up(made: Maker) -> None:
    with made.ledger.read() as connection:
        found = funnel(connection, made.row)
    counts = [
        (p.came, p.passed, p.failed, p.refused, p.inconclusive, p.errors, p.waiting, p.running, p.set_aside)
        for p in found
    ]
    assert counts == [(12, 11, 0, 1, 0, 0, 0, 0, 0), (11, 7, 2, 0, 1, 1, 0, 0, 0), (7, 2, 3, 0, 1, 0, 1, 0, 0)]
    assert all(c[0] == sum(c[1:]) for c in counts)
    assert [c[0] for c in counts[1:]] == [c[1] for c in counts[:-1]]


def test_who_was_taken_out_by_people_counts_apart(made: Maker) -> None:
    made.place(7, Standing.VETOED, 2, verdict=None)
    with made.ledger.read() as connection:
        last = funnel(connection, made.row)[-1]
    assert (last.came, last.waiting, last.set_aside) == (7, 0, 1)


def test_a_refusal_that_is_skipped_over_is_no_pass(ledger: Ledger, tmp_path: Path) -> None:
    ladder = spec()["ladder"]
    ladder[1]["on_refusal"] = "skip"
    made = Maker(ledger, tmp_path, ladder=ladder)
    made.enter(("C", "CC", "CCC"))
    made.answer(0, 1, outcome=Outcome.REFUSED, reason=Reason.ELEMENT)
    for i in range(3):
        made.place(i, Standing.OPEN, 2)
    with made.ledger.read() as connection:
        second = funnel(connection, made.row)[1]
    assert (second.came, second.passed, second.refused) == (3, 2, 1)


def test_every_booked_second_has_one_fate(made: Maker) -> None:
    with made.ledger.begin() as connection:  # a cost that no attempt of a rung stands for: a proposer's
        now = db_now(connection)
        values = {"campaign_id": made.row.id, "resource": "llm_tokens", "amount": 500.0, "at": now}
        connection.execute(t.spend.insert().values(values))
    with made.ledger.read() as connection:
        found = booked_costs(connection, made.row)
        names = {r.id: r.name for r in campaigns.rungs(connection, made.row.id)}
        booked = connection.execute(
            sa.select(sa.func.sum(t.spend.c.amount)).where(t.spend.c.resource == "core_seconds")
        ).scalar_one()
    core = {(names[r], fate): amount for r, resource, fate, amount in found if resource == "core_seconds" and r}
    assert core == pytest.approx(
        {
            ("r0", "batch"): 0.12,
            ("r1", "passed"): 14.0,
            ("r1", "failed"): 4.0,
            ("r1", "no_answer"): 20.0,
            ("r2", "passed"): 122.0,
            ("r2", "failed"): 61.0 + 63 + 64,
            ("r2", "inconclusive"): 30.0,
        }
    )
    assert sum(core.values()) == pytest.approx(booked)
    assert [(r, amount) for r, resource, _, amount in found if resource == "llm_tokens"] == [(None, 500.0)]


def test_losses_are_grouped_by_rung_reason_and_property(made: Maker) -> None:
    with made.ledger.read() as connection:
        found = {(r[0], r[2], r[3]): r[4] for r in rejection_reasons(connection, made.row, ["homo_lumo_gap"])}
    assert found == {
        (2, "below_window", "homo_lumo_gap"): 1,
        (2, "above_window", "homo_lumo_gap"): 2,
        (1, "above_window", "homo_lumo_gap"): 2,
        (2, "scf_not_converged", None): 1,
        (1, "wall_limit", None): 1,
        (1, "kills_workers", None): 1,
        (0, "element", None): 1,
    }


def test_reuse_names_where_it_came_from(made: Maker) -> None:
    with made.ledger.read() as connection:
        [(_, name, source, n)] = reused_answers(connection, made.row)
    assert (name, source, n) == ("dyes", "computed", 1)


def test_proposals_come_page_by_page_and_each_once(made: Maker) -> None:
    with made.ledger.read() as connection:
        found = [r[1] for r in proposals(connection, made.row)]
    assert len(found) == 14 and len(set(found)) == 14


def _second(connection: Any, row: Any) -> Any:
    return campaigns.rungs(connection, row.id)[1]


HOT: dict[str, Callable[[Any, Any], object]] = {
    "funnel": funnel,
    "costs": booked_costs,
    "progress": lambda c, r: views.progress(c, r, _second(c, r)),
    "pairs": lambda c, r: list(views.replicate_pairs(c, r, _second(c, r), _second(c, r), "homo_lumo_gap")),
    "imported pairs": lambda c, r: list(views.replicate_pairs(c, r, None, _second(c, r), "homo_lumo_gap")),
    "imported_properties": views.imported_properties,
    "measures": lambda c, r: has_measured(c, _second(c, r), "homo_lumo_gap"),
    "fallen": lambda c, r: rejection_reasons(c, r, ["homo_lumo_gap"]),
    "unread": proposals_without_candidate,
    "events": lambda c, r: events(c, r, "ended"),
    "reused": reused_answers,
    "amendments": amendments,
    "directives": directives,
    "measured_by": lambda c, r: measured_by(c, _second(c, r)),
    "proposals": lambda c, r: list(proposals(c, r)),
    "best": lambda c, r: best_candidates(c, r, 10),
    "arrived": lambda c, r: candidates_in_order(c, r, -1, 10),
    "answers": lambda c, r: rung_answers(c, r, campaigns.rungs(c, r.id), [1, 2]),
    "imported": lambda c, r: imported_answers(c, [1, 2]),
    "origin": lambda c, r: origin_of(c, best_candidates(c, r, 1)[0]),
}


@pytest.fixture(scope="module")
def kept(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maker]:
    """The same on SQLite, made once, to be read only."""
    folder = tmp_path_factory.mktemp("dyes")
    path = folder / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    ledger = Ledger(str(path), artifacts=folder / "artifacts")
    yield dyes(ledger, folder)
    ledger.close()


@pytest.mark.parametrize("name", HOT)
def test_nothing_is_scanned(kept: Maker, name: str) -> None:
    plan = plan_of(kept.ledger, lambda connection: HOT[name](connection, kept.row))
    assert scans(plan) == [], plan
    if name == "best":
        assert not any("TEMP B-TREE" in line for line in plan), plan
