"""The best candidates: their values, and the rows of the table."""

from __future__ import annotations

import io
import json
from pathlib import Path

import openpyxl
import pytest

from sciagent.domain.states_and_needs import Standing
from sciagent.report.export.spreadsheets import TableSelection, write_excel
from sciagent.report.parts import best_candidate_cards_and_table as candidates
from sciagent.report.parts import export_rows
from sciagent.report.parts.best_candidate_cards_and_table import cards
from sciagent.report.parts.best_candidate_cards_and_table import table as page_table
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from sciagent.store.views.report_candidates import best_candidates, hits_best_first, ids_best_first
from tests.support.pages import Parsed, rendered
from tests.support.query_plans import plan_of
from tests.support.reported import GFN2, PBE0, Maker, dyes, gap
from tests.support.rows import new_evidence


def test_values_have_unit_level_and_uncertainty_or_say_that_nobody_knows_it(parsed: Parsed) -> None:
    assert "4.30 ± 0.03 eV r2 · PBE0/def2-SVP//GFN2-xTB//ETKDGv3x10" in parsed.text
    assert "4.55 eV (± ?)" in parsed.text


def test_the_data_of_the_table_is_what_the_ledger_has(parsed: Parsed) -> None:
    data = json.loads(next(text for attributes, text in parsed.scripts if attributes.get("id") == "data"))
    assert len(data["rows"]) == 12 and len(data["geometries"]) == 6
    assert data["rows"][0][1] == "c1ccccc1" and data["rows"][0][10] == [4.4, "4.40 ± 0.10"]
    assert data["rows"][0][11] == [4.3, "4.30 ± 0.03"]  # the measured value comes first


def test_an_artifact_that_is_gone_leaves_the_rest_of_the_report(own_ledger: Ledger, tmp_path: Path) -> None:
    made = dyes(own_ledger, tmp_path)
    for path in made.ledger.artifacts.root.rglob("*"):
        if path.is_file():
            path.unlink()
    found = Parsed(rendered(made))
    assert "2 hits" in found.text
    assert not any("view3d" in (a.get("class") or "") for _, a in found.elements)


def test_card_table_export_and_best_show_replicates_pooled(own_ledger: Ledger, tmp_path: Path) -> None:
    made = dyes(own_ledger, tmp_path)
    again = new_evidence(made.ids[0], gap(4.5, PBE0, 0.03), verifier="toy2", subject="0", replicate=1)
    with made.ledger.begin() as connection:
        evidence.record(connection, [again])
    with made.ledger.read() as connection:
        ladder = campaigns.rungs(connection, made.row.id)
        [card] = cards(connection, made.row, ladder, made.ledger.artifacts, 1)
        shown = page_table(connection, made.row, ladder)
        first = next(export_rows.entries(connection, made.row, export_rows.columns(connection, made.row)))
        answer = best(connection, made.row, 1)[0].values["homo_lumo_gap"]
    pooled = pytest.approx(4.4)  # of 4.3 and 4.5 with equal uncertainties; their scatter is the larger one
    cell = shown.rows[0][10 + [column[0] for column in shown.columns].index("r2")]
    assert card.headline[0][1].quantity.value == pooled and cell[0] == pooled
    assert first.values["r2", "homo_lumo_gap"].quantity.value == pooled and answer.value == pooled
    assert answer.uncertainty == pytest.approx(0.1) == card.headline[0][1].quantity.uncertainty
    text = Parsed(rendered(made)).text
    assert "4.30 ± 0.03 eV PBE0" in text and "4.50 ± 0.03 eV PBE0" in text  # each in its own piece of evidence


def test_the_table_is_the_same_however_few_rows_are_read_at_once(
    own_ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = dyes(own_ledger, tmp_path)
    with made.ledger.read() as connection:
        ladder = campaigns.rungs(connection, made.row.id)
        at_once = page_table(connection, made.row, ladder)
        monkeypatch.setattr(candidates, "PAGE_ROWS", 5)
        assert len(at_once.rows) == 12 and page_table(connection, made.row, ladder) == at_once


def test_a_property_that_only_the_ledger_knows_is_reported(own_ledger: Ledger, tmp_path: Path) -> None:
    """A function of a notebook measured it; the process that writes the report does not define it."""
    objective = {"property": "notebook_index", "direction": "limit", "unit": "eV", "accept": [0.5, None], "weight": 1}
    made = Maker(own_ledger, tmp_path, objectives=[objective])
    made.enter(("C", "CC"))
    for i in range(2):
        made.answer(i, 1, gap(2.0 + i, GFN2))
        made.answer(i, 2, gap(1.0 + i, PBE0))
        made.place(i, Standing.SETTLED, 2, verdict="pass", depth=2, expected=0.5)
    with made.ledger.begin() as connection:
        connection.execute(
            t.property_.update().where(t.property_.c.name == "homo_lumo_gap").values(name="notebook_index")
        )
    assert "notebook index 1.00 ± 0.05 eV" in Parsed(rendered(made)).text


def test_hits_come_first_and_misses_last_wherever_they_are_listed(own_ledger: Ledger, tmp_path: Path) -> None:
    utilities = (0.66, 0.87, 1.0, 0.79, 0.94)
    molecules = ("C", "CC", "CCC", "CCCC", "CCCCC")
    made = Maker(own_ledger, tmp_path)
    made.enter((*molecules, "CO", "CN"))
    for i, utility in enumerate(utilities):
        made.answer(i, 2, gap(4.3, PBE0))
        hit = {"verdict": "pass", "depth": 2, "expected": 1.0, "utility": utility, "is_hit": True, "hit_tier": "x"}
        made.place(i, Standing.SETTLED, 2, **hit)
    made.place(5, Standing.OPEN, 1, depth=1, expected=1.0)
    made.place(6, Standing.SETTLED, 2, verdict="fail", depth=2, expected=0.5, utility=0.5)
    expected = ["CCC", "CCCCC", "CC", "CCCC", "C"]
    with made.ledger.read() as connection:
        ladder = campaigns.rungs(connection, made.row.id)
        assert [shown.text for shown in best(connection, made.row, 7)] == [*expected, "CO", "CN"]
        assert [shown.candidate.text for shown in cards(connection, made.row, ladder, made.ledger.artifacts, 7)][
            :5
        ] == (expected)
        assert [row[1] for row in page_table(connection, made.row, ladder).rows][:5] == expected
        lines = io.StringIO()
        assert export_rows.write_jsonl(connection, made.row, lines, hits=True) == 5
        assert [json.loads(line)["text"] for line in lines.getvalue().splitlines()] == expected
        write_excel(connection, made.row, tmp_path / "a.xlsx", TableSelection("smiles,utility"))
        first = hits_best_first(connection, made.row, 0, 2)
        rest = hits_best_first(connection, made.row, 2, 5)
    assert [shown.text for shown in (*first, *rest)] == expected
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["candidates"]
    smiles = [cell.value for cell in sheet[1]].index("smiles")
    assert [row[smiles].value for row in sheet.iter_rows(min_row=2)] == [*expected, "CO", "CN"]


def test_the_best_are_read_through_an_index(own_ledger: Ledger, tmp_path: Path) -> None:
    made = dyes(own_ledger, tmp_path)
    for ask in (
        lambda connection: best_candidates(connection, made.row, 5),
        lambda connection: ids_best_first(connection, made.row, hits=True, n=5),
    ):
        plan = plan_of(made.ledger, ask)
        assert any("ix_campaign_candidate_best" in line for line in plan)
        assert not any("TEMP B-TREE" in line for line in plan[:3])
