"""The committed formation energies of oxides are what the documents say, and a run leaves out what is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.crystals import oxides
from sciagent.chemistry.crystal import Crystal


def test_the_measured_enthalpies_have_sources() -> None:
    rows = oxides.rows_of(oxides.EXPERIMENT)
    assert {row["compound"] for row in rows} == set(oxides.crystals())
    assert all(row["source"] for row in rows)


def test_the_default_model_is_within_the_tolerance_and_another_functional_refuses() -> None:
    wanted = {row["compound"]: float(row["formation_energy"]) for row in oxides.rows_of(oxides.EXPERIMENT)}
    rows = oxides.rows_of(oxides.TABLE)
    found = {row["compound"]: row["formation_energy"] for row in rows if row["model"] == "chgnet-0.3.0"}
    assert found.keys() == wanted.keys()
    assert all(abs(float(found[compound]) - wanted[compound]) <= oxides.TOLERANCE for compound in wanted)
    refused = [row["reason"] for row in rows if row["model"] == "chgnet-r2scan"]
    assert refused == ["no_correction"] * len(wanted)
    assert "10 of 10" in oxides.report(oxides.TABLE)


def test_what_has_a_row_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refused(model: str, crystal: Crystal) -> dict[str, str]:
        asked.append(model)
        return {"reason": "element"}

    monkeypatch.setattr(oxides, "measured", refused)
    table = tmp_path / "oxides.csv"
    for compounds in (["NiO"], ["NiO", "CoO"]):
        oxides.run(["chgnet-0.3.0"], compounds, table)
    assert len(asked) == 2
    assert [row["compound"] for row in oxides.rows_of(table)] == ["NiO", "CoO"]
