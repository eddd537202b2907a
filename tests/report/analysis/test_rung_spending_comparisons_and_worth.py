"""The ladder in figures: what is compared, which rungs earn their keep, and where each number comes from."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

from sciagent.domain.answers.status_and_comparison import RungWorth
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.rung_calibration_on_measurements import Fit, FitKind
from sciagent.domain.states_and_needs import Standing
from sciagent.report.analysis.rung_spending_comparisons_and_worth import (
    Compared,
    compared_with_imports,
    ladder_worth,
    limits,
    spending,
)
from sciagent.report.analysis.summary import against_imported
from sciagent.report.export import spreadsheets
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.reservations_and_bookings import Bill, book_many
from sciagent.store.results import evidence
from tests.support.pages import Parsed, rendered
from tests.support.reported import Maker
from tests.support.rows import new_evidence

CHEAP, DEAR, MEASURED = Level("GFN2"), Level("SMD", phase="water"), Level("experiment", phase="water")


def solvation(value: float, level: Level, **more: object) -> Measured:
    return Measured("solvation_free_energy", level, Quantity(value, "eV", 0.01, **more))  # type: ignore[arg-type]


@pytest.fixture
def made(own_ledger: Ledger, tmp_path: Path) -> Maker:
    """Six molecules that a file knows, the first one three times; r1 has measured all, r2 the last five."""
    made = Maker(own_ledger, tmp_path)
    made.enter(("CO", "CCO", "CCCO", "CCCCO", "CC(C)O", "CCCCCO"))
    for i in range(6):
        made.answer(i, 1, solvation(-0.1 * i - 0.01, CHEAP))
        if i:
            made.answer(i, 2, solvation(-0.1 * i + 0.02, DEAR))
        made.place(i, Standing.SETTLED, 2 if i else 1, verdict="pass", depth=2 if i else 1, score=0.5)
        for replicate in range(1 if i else 3):
            write(made, i, solvation(-0.1 * i + 0.03 * replicate, MEASURED), replicate)
    return made


def write(made: Maker, i: int, measured: Measured, replicate: int) -> None:
    new = new_evidence(
        made.ids[i], measured, verifier="import", subject=str(i), source="freesolv.csv", replicate=replicate
    )
    with made.ledger.begin() as connection:
        evidence.record(connection, [new])


def comparisons(made: Maker) -> dict[str, Compared]:
    with made.ledger.read() as connection:
        found = compared_with_imports(connection, made.row, campaigns.rungs(connection, made.row.id))
    return {compared.upper: compared for compared in found}


def test_every_rung_is_compared_with_all_molecules_that_a_file_knows_too(made: Maker) -> None:
    found = comparisons(made)
    assert {rung: (c.seen, c.x_level) for rung, c in found.items()} == {
        "r1": (6, MEASURED.label),
        "r2": (5, MEASURED.label),
    }
    assert found["r2"].figures.bias == pytest.approx(0.02)


def test_only_jobs_without_a_usable_answer_are_wasted(made: Maker) -> None:
    """A proposer's time is no waste: it is of no job that could have answered."""
    made.answer(0, 2, outcome=Outcome.CRASHED, reason=Reason.EMBEDDING_FAILED, seconds=3.0)
    with made.ledger.begin() as connection:
        book_many(connection, [Bill(made.row.id, rung_id=None, attempt_id=None, cost={"core_seconds": 50.0})])
    with made.ledger.read() as connection:
        found = spending(connection, made.row, campaigns.rungs(connection, made.row.id))
    wasted = [found.wasted_at(rung, "core_seconds") for rung in ("r2", "proposer")]
    assert (found.wasted("core_seconds"), wasted) == (3.0, [3.0, 0.0])
    assert found.by_rung("core_seconds")["proposer"] == {"proposing": 50.0} and found.total("core_seconds") == 64.0
    assert (found.resources, found.dearest("core_seconds")) == (["core_seconds"], "proposer")


def test_the_head_of_the_report_tells_the_error_against_imported_values(made: Maker) -> None:
    wanted = {"objectives": [{"property": "solvation_free_energy"}], "terminal": "r2"}
    row = replace(made.row, spec=made.row.spec | wanted)
    [line], figure = against_imported(row, list(comparisons(made).values()))
    assert line.endswith("(imported, n = 5): mean absolute error 0.02 eV, mean error +0.02 eV.")
    assert figure == "mean absolute error 0.02 eV"


def test_a_calibrated_rung_is_told_by_the_error_of_the_molecules_that_were_left_out(made: Maker) -> None:
    wanted = {"objectives": [{"property": "solvation_free_energy"}], "terminal": "r2"}
    row = replace(made.row, spec=made.row.spec | wanted)
    fit = Fit("solvation_free_energy", FitKind.LINEAR, "experiment", 1.0, -0.02, 8, 0.05, 0.06, 0.02)
    with made.ledger.read() as connection:
        ladder = [replace(rung, all_fits={fit.property: fit}) for rung in campaigns.rungs(connection, made.row.id)]
        found = compared_with_imports(connection, made.row, ladder)
    [line], figure = against_imported(row, found)
    assert line.endswith(": calibrated on them; each left out in turn, mean absolute error 0.05 eV.")
    assert figure == "mean absolute error 0.05 eV"


def test_ions_are_compared_apart_from_neutral_molecules(made: Maker) -> None:
    """The rung errs by 0.02 eV for neutral molecules and by 0.5 eV for five anions."""
    anions = ("C[O-]", "CC[O-]", "CCC[O-]", "CCCC[O-]", "CC(C)[O-]")
    made.enter(anions)
    for i in range(6, 11):
        made.answer(i, 2, solvation(-0.1 * i + 0.5, DEAR))
        made.place(i, Standing.SETTLED, 2, verdict="pass", depth=2, score=0.5)
        write(made, i, solvation(-0.1 * i, MEASURED), 0)
    with made.ledger.read() as connection:
        found = compared_with_imports(connection, made.row, campaigns.rungs(connection, made.row.id))
    at_r2 = [compared for compared in found if compared.upper == "r2"]
    assert [(c.molecules, c.seen) for c in at_r2] == [("neutral molecules", 5), ("ions", 5)]
    assert [c.figures.mae for c in at_r2] == pytest.approx([0.02, 0.5])
    wanted = {"objectives": [{"property": "solvation_free_energy"}], "terminal": "r2"}
    lines, _ = against_imported(replace(made.row, spec=made.row.spec | wanted), at_r2)
    assert "(imported, n = 5 neutral molecules)" in lines[0] and "(imported, n = 5 ions)" in lines[1]
    assert comparisons(made)["r1"].molecules == "", "no ion reached it"


def test_statistics_of_imported_values_equal_those_that_pandas_computes_from_the_export(
    made: Maker, tmp_path: Path
) -> None:
    made.place(5, Standing.DROPPED, 1, verdict="fail", depth=1, score=0.5)  # r2's value is of another campaign
    with made.ledger.read() as connection, (tmp_path / "all.csv").open("w", encoding="utf-8", newline="") as file:
        spreadsheets.write_csv(connection, made.row, file)
    frame = pd.read_csv(tmp_path / "all.csv")
    for rung, compared in comparisons(made).items():
        pair = frame[["imported.solvation_free_energy [eV]", f"{rung}.solvation_free_energy [eV]"]].dropna()
        measured, computed = pair.iloc[:, 0], pair.iloc[:, 1]
        figures = compared.figures
        assert figures.n == len(pair) == {"r1": 6, "r2": 5}[rung]
        assert figures.mae == pytest.approx((computed - measured).abs().mean(), abs=1e-12)
        assert figures.bias == pytest.approx((computed - measured).mean(), abs=1e-12)
        assert figures.spearman == pytest.approx(measured.corr(computed, method="spearman"), abs=1e-12)


def test_replicates_of_an_import_are_averaged_and_count_once(made: Maker) -> None:
    mean_of_the_first = 0.03  # of 0, 0.03 and 0.06; r1 says -0.01
    assert comparisons(made)["r1"].figures.bias == pytest.approx(-(5 * 0.01 + mean_of_the_first + 0.01) / 6)


def test_a_molecule_of_which_a_file_knows_only_a_limit_is_left_out(made: Maker) -> None:
    write(made, 5, solvation(-0.5, MEASURED, censoring=Censoring.BELOW), 1)
    assert {rung: (c.seen, c.censored) for rung, c in comparisons(made).items()} == {"r1": (5, 1), "r2": (4, 1)}


def value(worth: float, **without: float) -> dict[str, Any]:
    return {"worth": worth, "without": without}


def test_what_a_rung_brings_is_what_would_be_lost_without_it() -> None:
    found = ladder_worth(value(4.0, xtb=1.5, ff=3.99), "hits")
    assert [(rung.rung, rung.brings) for rung in found.rungs] == [("xtb", 2.5), ("ff", pytest.approx(0.01))]
    assert found.words == (
        "the candidates ahead are worth 4 hits beyond what they will cost; "
        "xtb brings 2.5 of it, ff looks worthless for them"
    )


def test_nothing_is_said_of_rungs_where_nothing_is_worth_anything() -> None:
    found = ladder_worth(value(0.0, xtb=0.0), "best")
    assert found.words == "the candidates ahead are worth 0 payoff beyond what they will cost"
    assert ladder_worth(value(2.0), "graded").words.endswith("worth 2 payoff beyond what they will cost")


def test_a_rung_is_never_said_to_cost_value() -> None:
    """Plans are approximate by a per cent: without a rung the sum may come out higher."""
    assert ladder_worth(value(1.0, xtb=1.004), "hits").rungs == (RungWorth(rung="xtb", brings=0.0),)


def test_lineage_and_provenance_stand_with_the_number(parsed: Parsed) -> None:
    assert "add atom of CCO , by evolve, turn 3" in parsed.text
    assert "conjugation lowers the gap" in parsed.text
    assert re.search(
        r"Evidence \d+ \([0-9a-f]{12}\), revision 0, replicate 0; \d{4}-\d\d-\d\d .* engine 1\.2", parsed.text
    )


def test_amendments_and_decisions_of_people_are_listed(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(own_ledger, tmp_path)
    made.enter(("CCO",))
    with made.ledger.begin() as connection:
        said = {"campaign_id": made.row.id, "who": "ada", "at": db_now(connection)}
        old, new = {"rungs": {"r2": 10}, "proposals": 9}, {"rungs": {"r2": 20}, "proposals": 9}
        change = {"path": "budget", "old": old, "new": new, "why": "two more hits wanted"}
        connection.execute(t.campaign_amendment.insert().values(said | change))
        promoted = {"candidate_id": made.ids[0], "verb": "promote", "payload": {"rung": "r2"}, "why": "worth a look"}
        connection.execute(t.directive.insert().values(said | promoted))
    text = Parsed(rendered(made)).text
    assert "ada budget.rungs.r2: 10 → 20 two more hits wanted" in text
    assert "ada promote CCO to r2 worth a look" in text


def test_a_chart_shows_the_limits_of_the_objective_at_the_rung_that_decides_it_else_the_gate(
    own_ledger: Ledger, tmp_path: Path
) -> None:
    row = Maker(own_ledger, tmp_path).row
    with own_ledger.read() as connection:
        ladder = campaigns.rungs(connection, row.id)
    lower = ladder[1]
    gate = row.spec["ladder"][1]["gate"]["homo_lumo_gap"]
    assert limits(row, lower, "homo_lumo_gap") == tuple(gate) != (4.0, 4.6)
    assert limits(row, replace(lower, decides={"homo_lumo_gap": ""}), "homo_lumo_gap") == (4.0, 4.6)
    assert limits(row, ladder[2], "homo_lumo_gap") == (4.0, 4.6)
    assert limits(row, ladder[2], "dipole") is None


def test_the_first_of_several_measurements_is_not_wasted(made: Maker) -> None:
    """No verdict follows from it before the others are made."""
    made.answer(0, 2, seconds=4.0)
    cc = t.campaign_candidate.c
    with made.ledger.begin() as connection:
        is_first = sa.and_(cc.campaign_id == made.row.id, cc.candidate_id == made.ids[0])
        changed = sa.update(t.campaign_candidate).where(is_first).values(position=2, verdict=None)
        assert connection.execute(changed).rowcount == 1
    with made.ledger.read() as connection:
        found = spending(connection, made.row, campaigns.rungs(connection, made.row.id))
    assert found.wasted("core_seconds") == 0 and found.by_rung("core_seconds")["r2"]["running"] == 4.0
