"""The committed runs of liquids and of a solute, beside the measured values."""

from __future__ import annotations

from benchmarks.md import hydration, liquids
from benchmarks.md.resumable_rows import rows_of

CLOSE = {"density": 0.06, "vaporisation_enthalpy": 0.25}
"""Relative errors that a force field for liquids does not exceed; the largest are those of vaporisation."""


def test_each_run_is_of_a_liquid_of_the_list_and_near_its_measured_values() -> None:
    by_name = {liquid["name"]: liquid for liquid in liquids.liquids()}
    rows = rows_of(liquids.ROWS)
    assert rows and len({(row["name"], row["force_field"]) for row in rows}) == len(rows)
    for row in rows:
        for prop, column in liquids.MEASURED.items():
            measured = float(by_name[row["name"]][column])
            value, uncertainty = row[prop]
            assert 0 < uncertainty < 0.03 * measured, row["name"]
            assert abs(value / measured - 1) < CLOSE[prop], row["name"]
    assert liquids.table().count(" | ") == 3 * len(rows)


def test_declared_costs_of_the_runs_are_within_a_factor_of_three() -> None:
    for row in rows_of(liquids.ROWS) + rows_of(hydration.ROWS):
        if row["core_seconds_of_last_attempt"] > 0.5 * row["declared_core_seconds"]:  # it was not resumed
            assert row["core_seconds_of_last_attempt"] < 3 * row["declared_core_seconds"], row["name"]
