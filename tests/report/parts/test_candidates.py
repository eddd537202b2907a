"""The best candidates: their values, and the rows of the table."""

from __future__ import annotations

import json
from pathlib import Path

from sciagent.store.database.ledger import Ledger
from tests.support.pages import Parsed, rendered
from tests.support.reported import dyes


def test_values_have_unit_level_and_uncertainty_or_say_that_nobody_knows_it(parsed: Parsed) -> None:
    assert "4.30 ± 0.03 eV r2 · PBE0/def2-SVP//GFN2-xTB//ETKDGv3x10" in parsed.text
    assert "4.55 eV (± ?)" in parsed.text


def test_the_data_of_the_table_is_what_the_ledger_has(parsed: Parsed) -> None:
    data = json.loads(next(text for attributes, text in parsed.scripts if attributes.get("id") == "data"))
    assert len(data["rows"]) == 12 and len(data["geometries"]) == 6
    assert data["rows"][0][1] == "c1ccccc1" and data["rows"][0][9] == [4.3, "4.30 ± 0.03"]


def test_an_artifact_that_is_gone_leaves_the_rest_of_the_report(own_ledger: Ledger, tmp_path: Path) -> None:
    made = dyes(own_ledger, tmp_path)
    for path in made.ledger.artifacts.root.rglob("*"):
        if path.is_file():
            path.unlink()
    found = Parsed(rendered(made))
    assert "2 hits" in found.text
    assert not any("view3d" in (a.get("class") or "") for _, a in found.elements)
