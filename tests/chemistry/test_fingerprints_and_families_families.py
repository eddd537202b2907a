from __future__ import annotations

import pytest

from sciagent.chemistry.fingerprints_and_families import family, features, ring_families
from sciagent.chemistry.molecule import parse_molecule

DRAWINGS = {
    "tautomers": ("Oc1ccccn1", "O=c1cccc[nH]1"),
    "isotopes in a ring": ("Cc1ccccc1", "Cc1cccc[13cH]1", "[2H]c1ccccc1"),
    "double bonds": ("c1ccccc1/C=C/c1ccccc1", "c1ccccc1/C=C\\c1ccccc1", "c1ccccc1C=Cc1ccccc1"),
    "ring fusions": ("C1CC[C@@H]2CCCC[C@H]2C1", "C1CC[C@H]2CCCC[C@H]2C1", "C1CCC2CCCCC2C1"),
}


@pytest.mark.parametrize("drawings", DRAWINGS.values(), ids=DRAWINGS)
def test_other_drawings_of_a_compound_are_of_its_family(drawings: tuple[str, ...]) -> None:
    texts = [parse_molecule(smiles).text for smiles in drawings]
    assert len({family(text) for text in texts}) == len({ring_families(text) for text in texts}) == 1
    assert len({features(text).family for text in texts}) > 1, "their scaffolds as drawn differ"


def test_other_ring_systems_are_other_families_and_molecules_without_rings_are_one() -> None:
    rings = ("c1ccccc1", "C1CCCCC1", "c1ccncc1", "c1ccc2ccccc2c1", "c1ccc(-c2ccccc2)cc1")
    assert len({family(smiles) for smiles in rings}) == len(rings)
    assert family("Cc1ccccc1O") == family("c1ccccc1") == "c1ccccc1"
    assert {family(smiles) for smiles in ("CCO", "CC(=O)N", "C", "[Na+]")} == {""}


def test_what_rdkit_cannot_read_is_a_family_of_its_own() -> None:
    assert family("c1ccc") == "c1ccc"
    assert ring_families("c1ccc") == ("c1ccc",)


def test_ring_systems_stay_whatever_hangs_on_them() -> None:
    alone = ring_families("c1ccsc1")
    for smiles in ("Cc1ccsc1", "C1CCCC1CCc1ccsc1", "C1CC1CCCCc1ccsc1", "c1ccc(-c2ccsc2)nc1"):
        assert set(alone) < set(ring_families(smiles)) or alone == ring_families(smiles)
    assert ring_families("Cn1cccc1") == ring_families("c1cc[nH]c1")
    assert ring_families("C[n+]1ccccc1") == ring_families("c1ccncc1")
    assert len(ring_families("c1ccc2ccccc2c1")) == 1, "fused rings are one system"
    assert ring_families("CCO") == ("",)
