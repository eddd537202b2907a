"""Recorded outputs of ORCA and Gaussian: what is read, and the reason of each failure."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry
from tests.simulators.recorded import CATION, HARTREE, PLACES, PROGRAMS, WATER, read, text_of


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_single_point_has_the_values_of_pyscf(program: str) -> None:
    result = read(f"{program}_water")
    assert result.energy / HARTREE == pytest.approx(-76.275949448, abs=1e-9)
    assert (result.homo, result.lumo) == pytest.approx((-0.304407 * HARTREE, 0.065389 * HARTREE), abs=2e-4)
    assert result.dipole == pytest.approx(1.97304, abs=1e-3)
    assert result.gap == pytest.approx(10.0626, abs=1e-3)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_relaxation_has_the_last_geometry_energy_and_orbitals(program: str) -> None:
    result = read(f"{program}_water_relaxed", relax=True)
    oxygen, hydrogen = result.geometry.positions[:2]
    assert np.linalg.norm(oxygen - hydrogen) == pytest.approx(0.95736, abs=1e-4)
    assert result.energy / HARTREE == pytest.approx(-76.276012345678, abs=1e-9)
    assert result.homo == pytest.approx(-0.304570 * HARTREE, abs=2e-4)
    assert result.dipole == pytest.approx(1.9718, abs=1e-4)
    assert result.diagnostics["relax_steps"] >= 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_orbitals_of_an_open_shell_are_taken_over_both_spins(program: str) -> None:
    result = read(f"{program}_water_cation", CATION)
    assert result.homo == pytest.approx(-0.849717 * HARTREE, abs=2e-4)  # the highest beta orbital
    assert result.lumo == pytest.approx(-0.591135 * HARTREE, abs=2e-4)  # the empty beta orbital, below alpha's
    assert result.diagnostics["s_squared"] == pytest.approx(0.7521, abs=1e-4)


FAILURES = [
    ("orca_scf_not_converged", False, Outcome.NOT_CONVERGED, Reason.SCF_NOT_CONVERGED),
    ("orca_relaxation_not_converged", True, Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED),
    ("orca_bad_input", False, Outcome.BAD_ENVIRONMENT, Reason.BAD_INPUT),
    ("orca_out_of_memory", False, Outcome.OUT_OF_MEMORY, Reason.MEMORY_LIMIT),
    ("gaussian_scf_not_converged", False, Outcome.NOT_CONVERGED, Reason.SCF_NOT_CONVERGED),
    ("gaussian_relaxation_not_converged", True, Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED),
    ("gaussian_bad_input", False, Outcome.BAD_ENVIRONMENT, Reason.BAD_INPUT),
    ("gaussian_disk_full", False, Outcome.BAD_ENVIRONMENT, Reason.DISK_FULL),
]


@pytest.mark.parametrize(("name", "relax", "outcome", "reason"), FAILURES)
def test_each_failure_has_its_name(name: str, relax: bool, outcome: Outcome, reason: Reason) -> None:
    with pytest.raises(SimulatorError) as error:
        read(name, relax=relax)
    assert (error.value.outcome, error.value.reason) == (outcome, reason), error.value.detail
    assert error.value.diagnostics["output_tail"]


def test_normal_termination_alone_is_not_believed() -> None:
    """ORCA ends normally without a converged SCF, and either program without the relaxation that was asked for."""
    assert PROGRAMS["orca"].normal in text_of("orca_scf_not_converged")
    for program in PROGRAMS:
        with pytest.raises(SimulatorError, match="no_result"):
            read(f"{program}_water", relax=True)
    for program, kind in PROGRAMS.items():
        with pytest.raises(SimulatorError, match="no_result"):
            read(f"{program}_water", text=f" {kind.normal}\n")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_result_for_other_atoms_another_charge_or_another_geometry_is_refused(program: str) -> None:
    name = f"{program}_water"
    ammonia = Geometry((7, 1, 1, 1), np.array([[0, 0, 0], [0, 0, 1.0], [0, 1.0, 0], [1.0, 0, 0]]))
    for other in (ammonia, CATION, WATER.moved(PLACES * 1.1)):
        with pytest.raises(SimulatorError, match="bad_result"):
            read(name, other)


def test_numbers_that_are_none_and_energies_beyond_the_field_are_refused() -> None:
    nan = text_of("orca_water").replace("-76.275949448141", "nan")
    with pytest.raises(SimulatorError, match="not_finite"):
        read("orca_water", text=nan)
    stars = text_of("gaussian_water").replace("-76.2759494481", "****************")
    with pytest.raises(SimulatorError, match="not_finite"):
        read("gaussian_water", text=stars)
    for name, line in (
        ("orca_water", "MP2 TOTAL ENERGY:   -76.4 Eh"),
        ("gaussian_water", " E2 = -0.2D+00 EUMP2 = -0.7D+02"),
    ):
        with pytest.raises(SimulatorError, match="bad_result"):
            read(name, text=f"{line}\n{text_of(name)}")
    contaminated = text_of("orca_water_cation").replace(":     0.752131", ":     1.360000")
    with pytest.raises(SimulatorError, match="spin_contaminated"):
        read("orca_water_cation", CATION, text=contaminated)
