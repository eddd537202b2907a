"""Substances that are refused as a whole structure."""

from __future__ import annotations

from rdkit import Chem

from sciagent.chemistry.molecule import parse_molecule
from sciagent_verifiers.fast.hazards.molecule_hazards import SUBSTANCES
from sciagent_verifiers.fast.hazards.normalised_molecule_and_cached_matches import Drawing
from tests.verifiers.safety_table import HAZARDS


def test_every_whole_structure_key_is_that_of_a_structure_in_the_table() -> None:
    there = {Drawing(parse_molecule(row["smiles"]).mol).key for row in HAZARDS} | {
        Drawing(Chem.MolFromSmiles("[C-]#[NH+]")).key
    }
    assert {one.key for one in SUBSTANCES} <= there
