"""Drawings whose colours the page decides."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.chemistry.subjects.molecule import drawing


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
