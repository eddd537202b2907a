"""What a force field cannot describe is refused by name before a program runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdkit import Chem

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.force_fields import charges, gaff
from sciagent_simulators.force_fields.parametrise import parametrise

ETHANOL = [-0.1361, 0.1264, -0.5998, 0.042367, 0.042367, 0.042367, 0.0432, 0.0432, 0.395999]
"""Elementary charges that antechamber gave for one conformer."""


def molecule_of(smiles: str) -> Chem.Mol:
    return Chem.AddHs(Chem.MolFromSmiles(smiles))


@pytest.mark.parametrize("force_field", ["openff-2.2.1", "gaff2"])
@pytest.mark.parametrize(
    ("molecule", "reason", "says"),
    [
        (Chem.Mol(), Reason.TOO_SMALL, "no atoms"),
        (molecule_of("CC(=O)[O-]"), Reason.CHARGE, "-1"),
        (molecule_of("C[NH3+].[Cl-]"), Reason.MULTIPLE_FRAGMENTS, "2 fragments"),
        (molecule_of("C[CH]C"), Reason.RADICAL, "C1"),
        (molecule_of("C[Si](C)(C)C"), Reason.ELEMENT, "Si1"),
        (molecule_of("C[Hg]C"), Reason.ELEMENT, "Hg1"),
        (molecule_of("[2H]C"), Reason.ISOTOPE, "isotope 2"),
        (Chem.MolFromSmiles("CCO"), Reason.VALENCE, "3 hydrogens"),
        (molecule_of("C" * 61), Reason.TOO_LARGE, "61 heavy atoms"),
    ],
)
def test_refusals_have_names_and_cost_nothing(
    force_field, molecule, reason: Reason, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (charges, gaff):
        monkeypatch.setattr(module, "antechamber", lambda *_, **__: pytest.fail("a program was run"))
    with pytest.raises(SimulatorError, match=says) as caught:
        parametrise(molecule, force_field, tmp_path / "x", seed=1)
    assert (caught.value.outcome, caught.value.reason) == (Outcome.REFUSED, reason)


def test_a_term_without_parameters_is_refused_before_the_charges(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(charges, "antechamber", lambda *_, **__: pytest.fail("a program was run"))
    with pytest.raises(SimulatorError) as caught:
        parametrise(molecule_of("FS(F)(F)(F)(F)F"), "openff-2.2.1", tmp_path / "x", seed=1)
    assert caught.value.reason == Reason.NO_PARAMETERS


def test_given_charges_need_no_program_and_water_none_either(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(charges, "antechamber", lambda *_, **__: pytest.fail("a program was run"))
    ethanol = parametrise(molecule_of("CCO"), "openff-2.2.1", tmp_path / "x", 1, ETHANOL)
    assert ethanol.charges == tuple(ETHANOL) and len(ethanol.constraints) == 6
    assert ethanol.force_field == "openff-2.2.1"
    water = parametrise(molecule_of("O"), "openff-2.2.1", tmp_path / "x", 1)
    assert water.charges == (-0.834, 0.417, 0.417)
    with pytest.raises(ValueError, match="add up"):
        parametrise(molecule_of("CCO"), "openff-2.2.1", tmp_path / "x", 1, [0.1] * 9)


def test_gaff2_takes_given_charges(tmp_path: Path) -> None:
    ethanol = parametrise(molecule_of("CCO"), "gaff2", tmp_path / "x", 1, ETHANOL)
    assert [atom.label for atom in ethanol.atoms[:3]] == ["c3", "c3", "oh"]
    assert ethanol.charges == tuple(ETHANOL) and ethanol.force_field == "gaff2"


@pytest.mark.long
def test_both_force_fields_get_the_same_charges(tmp_path: Path) -> None:
    sage = parametrise(molecule_of("CC#N"), "openff-2.2.1", tmp_path / "a", 1)
    gaff2 = parametrise(molecule_of("CC#N"), "gaff2", tmp_path / "b", 1)
    assert sage.charges == pytest.approx(gaff2.charges, abs=1e-12)
    assert sum(sage.charges) == pytest.approx(0, abs=1e-12)
