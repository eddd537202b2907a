"""GAFF2 energies are those of sander, and the tables of other force fields are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.force_fields.gaff import gaff2_parameters, read_prmtop
from sciagent_simulators.programs.ambertools import antechamber, parmchk2, tleap
from tests.support.force_fields import alone, recorded

RECORDED = recorded("gaff2")
KILOCALORIE = 4.184
COULOMB = 138.935457644382 / (18.2223**2 * KILOCALORIE / 10)
"""Coulomb constant of OpenMM, kJ/mol nm/e^2, over Amber's, whose factor of charges is 18.2223."""
FEW = ("alcohol", "aniline", "azole")


def assert_energies_of_sander(kind: str, folder: Path) -> None:
    each = RECORDED[kind]
    ours = alone(gaff2_parameters(each.molecule, each.positions, each.charges, folder), each.positions)
    theirs = each.energies
    expected = {
        "bonds": theirs["BOND"],
        "angles": theirs["ANGLE"],
        "torsions": theirs["DIHED"],
        "nonbonded": theirs["VDWAALS"] + theirs["1-4 VDW"] + COULOMB * (theirs["EEL"] + theirs["1-4 EEL"]),
    }
    assert {term: energy / KILOCALORIE for term, energy in ours.items()} == pytest.approx(expected, abs=1e-3), kind


@pytest.mark.parametrize("kind", FEW)
def test_energies_of_each_term_are_those_of_sander(kind: str, tmp_path: Path) -> None:
    """kcal/mol, at distorted geometries; sander 26.0 prints 1e-4. Aniline and azole show whether parmchk2 reads GAFF2:
    with the parameters of GAFF they differ by 0.3 and more."""
    assert_energies_of_sander(kind, tmp_path / "x")


@pytest.mark.long
def test_energies_of_all_molecules_are_those_of_sander(tmp_path: Path) -> None:
    for number, kind in enumerate(RECORDED):
        assert_energies_of_sander(kind, tmp_path / str(number))


def test_tables_are_read_whole_or_refused(tmp_path: Path) -> None:
    each = RECORDED["alcohol"]
    typed = antechamber(each.molecule, each.positions, tmp_path / "a", charges=False)
    assert typed.types == ("c3", "c3", "oh", "hc", "hc", "hc", "h1", "h1", "ho")
    text = tleap(typed, parmchk2(typed, tmp_path / "b"), tmp_path / "c")
    parameters = read_prmtop(text)
    assert [atom.label for atom in parameters.atoms] == list(typed.types)
    assert len(parameters.constraints) == 6 and parameters.mass == pytest.approx(46.07, abs=0.01)
    hydroxyl = parameters.atoms[8]
    assert hydroxyl.epsilon < 0.03 and parameters.rules.scale_coulomb == pytest.approx(1 / 1.2)
    for old, new in (
        ("1.20000000E+00", "1.10000000E+00"),  # scale of pairs three bonds apart
        ("%FORMAT(10I8)", "%FORMAT(10Q8)"),
        ("%FLAG MASS", "%FLAG WEIGHT"),
        ("BONDS_INC_HYDROGEN", "BONDS_OTHER"),
    ):
        assert old in text
        with pytest.raises(SimulatorError) as caught:
            read_prmtop(text.replace(old, new))
        assert (caught.value.outcome, caught.value.reason) == (Outcome.CRASHED, Reason.BAD_RESULT)
    with pytest.raises(SimulatorError, match="characters"):
        read_prmtop("x" * 5_000_000)
