"""The errors of the mesh are those of the benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciagent_simulators.periodic.k_points_and_elements import energy_error, moment_error

MEASURED = Path(__file__).parents[2] / "benchmarks" / "crystals" / "metals.json"


def test_energies_err_as_in_the_benchmark() -> None:
    for mesh, error in json.loads(MEASURED.read_text())["root_mean_squares"].items():
        assert energy_error(float(mesh)) == pytest.approx(error, rel=0.05)


def test_a_mesh_between_two_has_the_error_of_the_coarser_one_and_a_coarser_one_none() -> None:
    assert (energy_error(3.0), energy_error(10.0), energy_error(1.0)) == (energy_error(2.5), energy_error(4.5), None)
    assert (moment_error(2.5), moment_error(6.0), moment_error(1.2)) == (0.14, 0.03, None)
