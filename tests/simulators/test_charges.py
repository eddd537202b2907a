"""AM1-BCC charges of small molecules by sqm, equal on equivalent atoms, and sqm's failures by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.force_fields import charges as module
from sciagent_simulators.force_fields.charges import am1bcc_charges, equivalent_atoms, interactions, symmetrised
from sciagent_simulators.programs.ambertools import TypedMolecule
from sciagent_simulators.starting_geometry import embed

NITROMETHANE = "C[N+](=O)[O-]"
ACETATE = "CC(=O)[O-]"


def molecule_of(smiles: str) -> Chem.Mol:
    return Chem.AddHs(Chem.MolFromSmiles(smiles))


def test_nitromethane_has_the_charges_that_antechamber_gives(tmp_path: Path) -> None:
    """antechamber -c bcc of AmberTools 26.0 alone gave these for an MMFF94 geometry; 0.005 e for another one."""
    charges = am1bcc_charges(molecule_of(NITROMETHANE), tmp_path / "x", seed=1)
    assert charges.sum() == pytest.approx(0, abs=1e-12)
    assert charges[2] == charges[3] and charges[4] == charges[5] == charges[6]
    assert charges[:5] == pytest.approx([-0.1024, 0.2343, -0.2090, -0.2090, 0.0954], abs=0.005)


@pytest.mark.parametrize(
    ("smiles", "classes"),
    [(ACETATE, [1, 1, 2, 2, 3]), (NITROMETHANE, [1, 1, 2, 2, 3]), ("CC(=O)O", [1, 1, 1, 1, 3, 3]), ("CC#N", [1] * 3)],
)
def test_atoms_of_other_resonance_structures_are_equivalent(smiles: str, classes: list[int]) -> None:
    """classes: how many atoms share the class of each of the first atoms."""
    found = equivalent_atoms(molecule_of(smiles))
    sizes = [found.count(each) for each in found]
    assert sorted(sizes[: len(classes)]) == sorted(classes)


def test_the_sum_is_the_formal_charge() -> None:
    acetate = molecule_of(ACETATE)
    raw = np.random.default_rng(1).normal(0, 0.3, acetate.GetNumAtoms())
    charges = symmetrised(acetate, raw)
    assert charges.sum() == pytest.approx(-1, abs=1e-12)
    assert charges[2] == pytest.approx(charges[3], abs=1e-15)
    again = symmetrised(acetate, charges)
    assert again == pytest.approx(charges, abs=1e-12)


def test_folded_conformers_come_last() -> None:
    """The internal hydrogen bond of a glycol attracts, so its conformer has the larger sum."""
    glycol = molecule_of("OCCO")
    geometries, _, _ = embed(glycol, 0, 1, 20, 1)
    sums = interactions(glycol, geometries)
    oxygens = [atom.GetIdx() for atom in glycol.GetAtoms() if atom.GetSymbol() == "O"]
    apart = [float(np.linalg.norm(each.positions[oxygens[0]] - each.positions[oxygens[1]])) for each in geometries]
    assert apart[int(np.argmin(sums))] > 3.4 > apart[int(np.argmax(sums))]  # angstrom: anti, gauche
    assert not interactions(molecule_of("C[Si](C)(C)[GeH3]"), geometries[:2]).any()


def test_long_molecules_get_the_mean_of_three_conformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []

    def counted(molecule, positions, folder: Path, charges: bool) -> TypedMolecule:
        calls.append(folder)
        values = [float(len(calls))] + [0.0] * (molecule.GetNumAtoms() - 1)
        return TypedMolecule("", (), tuple(values))

    monkeypatch.setattr(module, "antechamber", counted)
    chain = molecule_of("CCOCCOCC=O")
    charges = am1bcc_charges(chain, tmp_path / "long", seed=1)
    assert len(set(calls)) == 3 and charges.sum() == pytest.approx(0, abs=1e-12)
    calls.clear()
    am1bcc_charges(molecule_of("CO"), tmp_path / "short", seed=1)
    assert len(calls) == 1


@pytest.mark.long
def test_an_element_without_am1_parameters_is_named(tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, match="NOT AVAILABLE") as caught:
        am1bcc_charges(molecule_of("CB(O)O"), tmp_path / "x", seed=1)
    assert caught.value.reason == Reason.ELEMENT
