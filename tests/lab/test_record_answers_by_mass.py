"""Masses by volume for a property in mol/L: every way in takes them, and says what they were converted to."""

from __future__ import annotations

import html
import math
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.display_units import Column
from sciagent.lab.historical_values import load, read_old
from sciagent.store.database import tables as t
from tests.lab.pages.test_api_of_tasks_results_and_vials import instrument, post
from tests.lab.pages.test_csv_answer_sheets_and_vial_labels import kept, sent
from tests.lab.pages.test_task_pages import shown
from tests.lab.test_record_answers import task_ids
from tests.support.served_pages import Serve, make, serve  # noqa: F401

SOLUBILITY = "log_molar_solubility"
PHENOL = 6 * 12.011 + 6 * 1.008 + 15.999  # g/mol
LOGARITHM = math.log10(12.3e-3 / PHENOL)
SENTENCE = f"{SOLUBILITY} 12.3 mg/L is -3.884 ± 0.004, by the molar mass of 94.11 g/mol"


def recorded(built: Built) -> list[tuple[float, float | None, str]]:
    """Values of the quantity, with their uncertainties and as they were typed."""
    q = t.quantity.c
    query = sa.select(q.value, q.uncertainty, q.as_typed).where(q.as_typed.contains("mg/"))
    with built.ledger.read() as connection:
        return [(row.value, row.uncertainty, row.as_typed) for row in connection.execute(query)]


def test_the_form_offers_them_and_the_page_says_what_they_became(serve: Serve) -> None:  # noqa: F811
    server = serve(quantities=f"homo_lumo_gap, {SOLUBILITY}")
    anna, first = server.person("anna"), task_ids(server.built)[0]
    assert '<option value="ug/mL">µg/mL</option>' in anna.client.get(f"/tasks/{first}").text
    fields = {f"value.{SOLUBILITY}": "12.3", f"unit.{SOLUBILITY}": "mg/L", f"spread.{SOLUBILITY}": "0.1"}
    reply = anna.post(f"/tasks/{first}/enter", fields)
    assert reply.status_code == 303, reply.text
    [(value, uncertainty, typed)] = recorded(server.built)
    assert (value, typed) == (pytest.approx(LOGARITHM, abs=1e-4), "12.3 mg/L")
    assert uncertainty == pytest.approx(0.1 / 12.3 / math.log(10))
    words = html.unescape(shown(anna, f"/tasks/{first}"))
    assert SENTENCE.replace("_", " ") in words


def test_instruments_and_sheets_and_files_are_told_the_same(serve: Serve, tmp_path: Path) -> None:  # noqa: F811
    server = serve(quantities=f"homo_lumo_gap, {SOLUBILITY}")
    client, [first, second, _] = instrument(server), task_ids(server.built)
    result = {"values": {SOLUBILITY: "12.3 ± 0.1 mg/L"}}
    replies = [post(client, first, result).json() for _ in range(2)]
    assert replies[0] == replies[1] and replies[0]["converted"] == [SENTENCE]
    status, page = sent(server.person("anna"), f"task,value.{SOLUBILITY},unit.{SOLUBILITY}\n{second},5,mg/ml\n")
    assert status == 200 and len(kept(page)) == 1 and "5 mg/mL is -1.335, by the molar mass of 108.14 g/mol" in page
    (tmp_path / "old.csv").write_text("smiles,gap,S\nNc1ccccc1,4.1,36\n", encoding="utf-8")
    columns = [Column("gap", "homo_lumo_gap", "eV"), Column("S", SOLUBILITY, "mg/mL")]
    old = read_old(server.built, "lab", tmp_path / "old.csv", columns)
    assert load(server.built, old, "anna").recorded == 1
    aniline = 6 * 12.011 + 7 * 1.008 + 14.007
    assert recorded(server.built)[-1][0] == pytest.approx(math.log10(36 / aniline), abs=1e-4)
