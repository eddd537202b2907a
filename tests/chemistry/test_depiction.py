"""Drawings whose colours the page decides, and bonds on coordinates that an engine left."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from rdkit import Chem

from sciagent.chemistry.depiction import drawing
from sciagent.chemistry.molecule import parse_molecule
from sciagent.chemistry.molecule_geometry import placed
from tests.support.reported import xyz


@pytest.mark.parametrize("smiles", ["O=C(NC)c1ccc(Br)cc1S(=O)(=O)F", "[H][H]", "C[N+](C)(C)C", "[CH3]", "B(O)O"])
def test_a_drawing_is_well_formed_and_has_no_colour_of_its_own(smiles: str) -> None:
    text = drawing(parse_molecule(smiles))
    root = ElementTree.fromstring(text)
    assert root.tag == "svg" and root.attrib["viewBox"] == "0 0 260 190"
    assert not re.search(r"#[0-9A-Fa-f]{3,6}", text) and "var(--atom" in text
    assert {e.tag for e in root.iter()} <= {"svg", "path", "rect", "ellipse", "polygon", "g", "text", "tspan"}


def test_heteroatoms_have_names_of_colours() -> None:
    text = drawing(parse_molecule("NCC(=O)O"))
    assert "var(--atom-n)" in text and "var(--atom-o)" in text


@pytest.mark.parametrize("smiles", ["CC(=O)Nc1ccc(O)cc1", "C#N", "[NH3+]CC(=O)[O-]", "C/C=C/C"])
def test_bonds_are_put_on_a_geometry_of_the_molecule(smiles: str) -> None:
    molecule = parse_molecule(smiles)
    mol = placed(molecule, xyz(molecule.smiles))
    assert mol is not None and mol.GetConformer().Is3D()
    assert Chem.MolToSmiles(Chem.RemoveHs(mol)) == molecule.smiles


def test_a_geometry_of_something_else_is_refused() -> None:
    molecule = parse_molecule("CCO")
    lines = xyz("CCO").splitlines()
    assert placed(molecule, xyz("CCN")) is None  # other elements
    assert placed(molecule, xyz("COC")) is None  # the same elements, otherwise bonded
    assert placed(molecule, "\n".join(lines[:-1])) is None  # an atom short
    assert placed(molecule, "") is None and placed(molecule, "3\n\nC x y z") is None
    far = lines[:]
    far[2] = "C 9.0 9.0 9.0"
    assert placed(molecule, "\n".join(far)) is None
