"""The committed cells are those of the list, sources are named, and the report's errors are those computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.crystals import cells
from benchmarks.crystals.oxides import rows_of


def test_every_measured_value_names_a_source() -> None:
    rows = rows_of(cells.EXPERIMENT)
    assert len({(row["compound"], row["structure"]) for row in rows}) == 20
    assert all(row["source"] for row in rows)
    assert {(row["quantity"], row["unit"]) for row in rows} == {
        ("a", "angstrom"),
        ("c", "angstrom"),
        ("bulk_modulus", "GPa"),
    }
    assert len(cells.experiment()) == len(rows)


def test_committed_rows_are_of_the_list() -> None:
    found = cells.found_in(cells.TABLE)
    assert len(found) == len(rows_of(cells.TABLE))
    assert {(compound, structure) for _, compound, structure in found} <= set(cells.crystals())
    assert {model for model, _, _ in found} <= set(cells.MODELS)


def test_a_compound_names_the_elements_of_its_prototype() -> None:
    assert cells.crystal_of("MgAl2O4", "spinel").formula == "MgAl2O4"
    assert cells.crystal_of("KMgF3", "perovskite").space_group == "Pm-3m"


def test_errors_are_in_per_cent_of_the_measured_value_and_a_wrong_order_is_marked(tmp_path: Path) -> None:
    """MgO: 4.254322 is 1.01 times 4.2122. GaN: 3.157407 is 0.99 times 3.1893, and 5.236951 is 1.01 times 5.1851."""
    table = tmp_path / "cells.csv"
    rows = (
        "m,MgO,rocksalt,4.254322,4.254322,145.44,-6.0,,1",  # 0.9 times 161.6
        "m,GaN,wurtzite,3.157407,5.236951,,-5.0,not_converged,1",
        "m,TiNiSn,half-Heusler,6.0,6.0,,-5.0,,1",  # no source: in no mean
        "m,ZnO,wurtzite,3.2495,5.2069,,-4.0,,1",
        "m,ZnO,zincblende,4.5,4.5,,-4.01,,1",
        "m,NaCl,rocksalt,5.64056,5.64056,,-3.0,,1",
        "m,NaCl,CsCl,3.4,3.4,,-2.9,,1",
    )
    table.write_text("\n".join((",".join(cells.COLUMNS), *rows)) + "\n", encoding="utf-8")
    found = cells.found_in(table)
    assert cells.errors("m", ("a", "c"), found) == pytest.approx([0, 1, -1, 1, 0, 0], abs=1e-4)
    assert cells.errors("m", ("bulk_modulus",), found) == pytest.approx([-10])
    shown = cells.report(table)
    assert "| `m` | lengths | 6 | +0.17 | 0.50 |" in shown
    assert "| `m` | bulk moduli | 1 | -10.00 | 10.00 |" in shown
    assert "| GaN wurtzite | B | 210.2 | `not_converged` |" in shown
    assert "| TiNiSn half-Heusler | a | (5.93) |" in shown
    assert "| ZnO: wurtzite, zincblende | **-10.0, wrong** |" in shown
    assert "| NaCl: rocksalt, CsCl | +100.0 |" in shown


def test_the_readme_has_the_means_of_the_committed_rows() -> None:
    means = [line for line in cells.report(cells.TABLE).splitlines() if line.startswith("| `")]
    text = (cells.FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(means) == 6
    assert all(line in text for line in means)
