"""The committed runs of liquids and of a solute, beside the measured values."""

from __future__ import annotations

import pytest

from benchmarks.md import hydration, liquids
from benchmarks.md.resumable_rows import rows_of
from sciagent_verifiers.method_errors import MD_LIQUID

CLOSE = {"density": 0.08, "vaporisation_enthalpy": 0.3}
"""Relative errors beyond which a run is wrong rather than its force field. The largest are those of dichloromethane by
GAFF2, 0.064, and of ethyl acetate by Sage, 0.26."""


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


def test_the_declared_errors_of_the_verifier_are_those_of_the_runs() -> None:
    errors = liquids.errors_of_force_fields()
    declared = {(error.source.rpartition(": ")[2], error.property): error for error in MD_LIQUID}
    assert declared.keys() == errors.keys()
    for key, error in declared.items():
        found = (error.n, error.mean_error, error.mean_absolute_error, error.root_mean_square)
        assert found == pytest.approx(liquids.figures(errors[key]), rel=5e-3), key


def test_declared_costs_of_the_runs_are_within_a_factor_of_three() -> None:
    for row in rows_of(liquids.ROWS) + rows_of(hydration.ROWS):
        if row["core_seconds_of_last_attempt"] > 0.5 * row["declared_core_seconds"]:  # it was not resumed
            assert row["core_seconds_of_last_attempt"] < 3 * row["declared_core_seconds"], row["name"]
