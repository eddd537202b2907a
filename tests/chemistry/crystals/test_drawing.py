"""Drawings of cells whose colours the page decides."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from sciagent.chemistry.crystals.drawing import drawing
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand

TEXTS = ["rocksalt: Na Cl", "fcc: Cu", "MoS2: Mo S", "garnet: Ca Al Si O", "double-perovskite: Cs Ag Bi Br"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_drawing_is_well_formed_within_its_frame_and_has_no_colour_of_its_own(text: str) -> None:
    svg = drawing(crystal_from_shorthand(text))
    root = ElementTree.fromstring(svg)
    assert root.tag == "svg" and root.attrib["viewBox"] == "0 0 260 190"
    assert not re.search(r"#[0-9A-Fa-f]{3,6}", svg) and "var(--atom" in svg
    assert {e.tag for e in root.iter()} <= {"svg", "path", "circle", "text"}
    for circle in root.iter("circle"):
        x, y, r = (float(circle.attrib[name]) for name in ("cx", "cy", "r"))
        assert min(x - r, y - r) >= 0 and x + r <= 260 and y + r <= 190
    assert len(svg) < 40_000


def test_rock_salt_has_the_atoms_of_its_cube_and_a_legend() -> None:
    root = ElementTree.fromstring(drawing(crystal_from_shorthand("rocksalt: Na Cl")))
    assert len(list(root.iter("circle"))) == 27 + 2
    assert [text.text for text in root.iter("text")] == ["Na", "Cl"]


def test_elements_have_colours_of_their_own() -> None:
    svg = drawing(crystal_from_shorthand("olivine-phosphate: Li Fe P O"))
    legend = re.findall(r"fill:var\(--([a-z-]+)\);stroke", svg)[-4:]
    assert len(set(legend)) == 4 and legend[-1] == "atom-o"
