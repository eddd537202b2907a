"""What molecules are compared by, counted by hand."""

from __future__ import annotations

import math

import pytest
from rdkit import Chem

from sciagent.chemistry.fingerprints_and_families import (
    RINGS_SPREAD,
    SHARE_SPREAD,
    SIZE_SPREAD,
    environment_atoms,
    features,
    structure_of,
)
from sciagent.chemistry.molecule import Molecule, parse_molecule
from tests.support.subjects import MOLECULES


def test_traits_are_those_that_one_counts() -> None:
    pyridine = structure_of("c1ccncc1")
    assert pyridine is not None
    size, rings, hydrogens, aromatic, unsaturated, nitrogen, oxygen, other = pyridine.traits
    assert (size, rings) == pytest.approx((math.log(6) / SIZE_SPREAD, 1 / RINGS_SPREAD))
    assert hydrogens == pytest.approx(5 / 6 / (2 * SHARE_SPREAD))
    assert (aromatic * SHARE_SPREAD, unsaturated * SHARE_SPREAD, nitrogen * SHARE_SPREAD) == pytest.approx(
        (1, 1, 1 / 6)
    )
    assert (oxygen, other) == (0, 0)


def test_explicit_hydrogens_change_nothing() -> None:
    plain, written = structure_of("CO"), structure_of("[H]C([H])([H])O[H]")
    assert plain is not None and written is not None
    assert plain.traits == pytest.approx(written.traits)


def test_what_is_no_smiles_has_no_structure() -> None:
    assert structure_of("NaCl2(") is None
    assert structure_of("") is None


def test_hydrogen_itself_has_one() -> None:
    found = structure_of("[H][H]")
    assert found is not None and all(map(math.isfinite, found.traits))


@pytest.mark.parametrize(
    ("smiles", "scaffold"),
    [
        ("CC(=O)Nc1ccc(O)cc1", "c1ccccc1"),
        ("CCO", ""),
        ("O=C1CCCN1c1ccccc1", "O=C1CCCN1c1ccccc1"),
        ("Cc1ccc(CCc2ccncc2)cc1", "c1ccc(CCc2ccncc2)cc1"),
    ],
)
def test_murcko_scaffolds(smiles: str, scaffold: str) -> None:
    molecule: Molecule = parse_molecule(smiles)
    assert features(molecule.smiles).family == scaffold


@pytest.mark.parametrize("text", ["c1cccc1", "not a molecule", ""])
def test_what_rdkit_cannot_read_has_no_scaffold_and_ends_nothing(text: str) -> None:
    found = features(text)
    assert found.family == "" and MOLECULES.nearest(found, [features("CCO")]) == 0


def test_an_environment_is_found_with_the_atoms_around_its_centre() -> None:
    mol = Chem.MolFromSmiles("CCCO")
    places = {environment_atoms(mol, feature) for feature in structure_of("CCCO").counts}  # type: ignore[union-attr]
    assert (3,) in places and (3, 2) in places and (2, 1, 3) in places, (
        "oxygen, its bond, and its carbon with both bonds"
    )
    assert environment_atoms(mol, 1) == ()
