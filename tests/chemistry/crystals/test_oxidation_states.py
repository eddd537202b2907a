"""Formulas that chemists know are neutral, with the oxidation states of textbooks."""

from __future__ import annotations

import pytest
from pymatgen.core import Composition

from sciagent.chemistry.crystals.oxidation_states import assignment_of, assignments_of


def counts(formula: str) -> dict[str, int]:
    return {str(element): int(n) for element, n in Composition(formula).items()}


@pytest.mark.parametrize(
    ("formula", "states"),
    [
        ("NaCl", {"Na": 1, "Cl": -1}),
        ("CsSnI3", {"Cs": 1, "Sn": 2, "I": -1}),
        ("SrTiO3", {"Sr": 2, "Ti": 4, "O": -2}),
        ("LiFePO4", {"Li": 1, "Fe": 2, "P": 5, "O": -2}),
        ("CaCO3", {"Ca": 2, "C": 4, "O": -2}),
        ("GaAs", {"Ga": 3, "As": -3}),
        ("Cs2AgBiBr6", {"Cs": 1, "Ag": 1, "Bi": 3, "Br": -1}),
        ("Fe3O4", {"Fe": 8 / 3, "O": -2}),
        ("Fe2O3", {"Fe": 3, "O": -2}),
        ("NH4Cl", {"N": -3, "H": 1, "Cl": -1}),
        ("Cu2O", {"Cu": 1, "O": -2}),
        ("Ca3Al2Si3O12", {"Ca": 2, "Al": 3, "Si": 4, "O": -2}),
        ("Si", {"Si": 0}),
    ],
)
def test_known_compounds_are_neutral(formula: str, states: dict[str, float]) -> None:
    assignment = assignment_of(counts(formula))
    assert assignment is not None
    assert assignment.states == pytest.approx(states)
    assert assignment.misordered == 0


def test_all_sets_of_states_come_in_order() -> None:
    """Copper of CuFeO2 is Cu(I) in the mineral delafossite; by the usual states of both it would be Cu(II)."""
    states = [assignment.states for assignment in assignments_of(counts("CuFeO2"))]
    assert states[0] == {"Cu": 2, "Fe": 2, "O": -2}
    assert {"Cu": 1, "Fe": 3, "O": -2} in states
    assert assignments_of(counts("NaCl3")) == []


@pytest.mark.parametrize("formula", ["NaCl3", "MgCl", "Cs2SnI3", "Ca2F", "Na2Cl"])
def test_formulas_out_of_balance_have_no_assignment(formula: str) -> None:
    assert assignment_of(counts(formula)) is None
