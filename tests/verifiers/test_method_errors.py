"""The declared errors of the methods are those of the benchmarks, and of levels that the verifiers have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sciagent.domain.properties_and_levels import properties
from sciagent.domain.units import factor_between
from sciagent.verification.verifier_contract import MethodError
from sciagent_verifiers import method_errors
from sciagent_verifiers.high_fidelity.md_liquid import MdLiquid
from sciagent_verifiers.high_fidelity.pyscf_ip_ea import PyscfIpEa
from sciagent_verifiers.high_fidelity.pyscf_solvation import PyscfSolvation
from sciagent_verifiers.high_fidelity.pyscf_tda import PyscfTda
from sciagent_verifiers.simulation.xtb_ip_ea import XtbIpEa
from sciagent_verifiers.simulation.xtb_singlepoint import XtbSinglepoint
from sciagent_verifiers.simulation.xtb_solvation import XtbSolvation

ROOT = Path(__file__).parents[2]
TABLES = (
    method_errors.XTB_SINGLEPOINT,
    method_errors.XTB_IP_EA,
    method_errors.XTB_SOLVATION,
    method_errors.PYSCF_IP_EA,
    method_errors.PYSCF_SOLVATION,
)
ROWS = [error for rows in (*TABLES, method_errors.PYSCF_TDA) for error in rows]


@pytest.mark.parametrize("error", ROWS, ids=lambda error: f"{error.property}-{error.method}")
def test_each_row_has_the_figures_of_its_benchmark(error: MethodError) -> None:
    file, *entry = error.source.split(": ")
    found: Any = json.loads((ROOT / file).read_text())
    for name in entry:
        found = found[name]
    figures = (error.n, error.mean_error, error.mean_absolute_error, error.root_mean_square)
    expected = (found["n"], found["mean_signed"], found["mean_absolute"], found["root_mean_square"])
    assert figures == pytest.approx(expected, abs=5e-4)
    assert factor_between(error.unit, properties()[error.property].unit) > 0


def test_the_benchmarks_of_hydration_hold_for_neutral_molecules_alone() -> None:
    assert {error.charge for error in ROWS if error.property == "solvation_free_energy"} == {"neutral"}


@pytest.mark.parametrize(
    ("verifier", "covered"),
    [
        (XtbSinglepoint(), {"dipole"}),
        (XtbSinglepoint({"solvent": "water"}), set()),
        (XtbSolvation(), {"solvation_free_energy"}),
        (XtbSolvation({"solvent": "hexane"}), set()),
        (
            XtbIpEa({"adiabatic": True}),
            {"adiabatic_ionization_energy", "adiabatic_electron_affinity", "vertical_electron_affinity"},
        ),
        (
            PyscfIpEa({"kind": "adiabatic", "optimise": True}),
            {"adiabatic_ionization_energy", "adiabatic_electron_affinity"},
        ),
        (PyscfSolvation(), {"solvation_free_energy"}),
        (PyscfSolvation({"basis": "def2-SVP"}), {"solvation_free_energy"}),
        (PyscfSolvation({"basis": "def2-TZVPD"}), set()),
        (PyscfTda({"basis": "def2-SVPD"}), {"s1_energy", "s1_oscillator_strength"}),
        (PyscfTda(), set()),
        (MdLiquid(), {"density", "vaporisation_enthalpy"}),
        (MdLiquid({"solvent": "water", "observables": ["density"]}), set()),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_row_holds_for_the_level_of_the_benchmark_and_for_no_other(verifier: Any, covered: set[str]) -> None:
    held = {
        m.property.name
        for m in verifier.measures
        for e in verifier.method_errors
        if e.holds_for(m.property.name, m.level)
    }
    assert held == covered
