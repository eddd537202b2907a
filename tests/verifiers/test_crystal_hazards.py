"""The hazard rules for crystals recognise their classes and leave their kin alone."""

from __future__ import annotations

import pytest
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent_verifiers.fast.hazards.crystal_hazards import CONDITIONS, GROUPS, crystal_rules, screen_crystal

cubic = Lattice.cubic


def molecule_in(atoms: str, *places: tuple[float, float, float], a: float = 5.0) -> Crystal:
    """A crystal with one group of atoms in a cubic cell, at Cartesian positions in angstrom."""
    return crystal_from_structure(Structure(cubic(a), atoms.split(), places, coords_are_cartesian=True))


AZIDE = molecule_in("Na N N N", (2.5, 2.5, 2.5), (0, 0, 0), (0, 0, 1.18), (0, 0, -1.18))
FULMINATE = molecule_in("Ag C N O", (2.5, 2.5, 2.5), (0, 0, -1.16), (0, 0, 0), (0, 0, 1.25))
CYANATE = molecule_in("Ag N C O", (2.5, 2.5, 2.5), (0, 0, -1.16), (0, 0, 0), (0, 0, 1.25))
PERCHLORATE = molecule_in(
    "Na Cl O O O O", (2.7, 2.7, 2.7), (0, 0, 0), (0.83, 0.83, 0.83), (0.83, -0.83, -0.83), (-0.83, 0.83, -0.83),
    (-0.83, -0.83, 0.83), a=5.4,
)  # fmt: skip
CYANIDE = molecule_in("K C N", (2.9, 2.9, 2.9), (0, 0, 0), (0, 0, 1.16), a=5.8)
MATCHES = [
    ("azide", AZIDE),
    ("nitrogen-rich-salt", AZIDE),
    ("fulminate", FULMINATE),
    ("perchlorate", PERCHLORATE),
    ("perchlorate", read_crystal("calcite: Na Cl O")),
    ("simple-cyanide", CYANIDE),
    ("noble-metal-nitride", read_crystal("antiperovskite: Ag N Au")),
    ("heavy-metal-acetylide", molecule_in("Ag Ag C C", (2, 2, 2), (4, 4, 0), (0, 0, 0), (0, 0, 1.2), a=5)),
    ("nitrogen-halide", read_crystal("ReO3: N I")),
    ("radioactive-element", read_crystal("fluorite: Po O")),
    ("fissile-element", read_crystal("fluorite: U O")),
    ("thorium", read_crystal("fluorite: Th O")),
    ("beryllium", read_crystal("wurtzite: Be O")),
    ("thallium", read_crystal("CsCl: Tl Cl")),
    ("mercury", read_crystal("zincblende: Hg Te")),
    ("cadmium", read_crystal("zincblende: Cd Te")),
    ("arsenic", read_crystal("zincblende: Ga As")),
    ("phosphine-source", read_crystal("zincblende: Al P")),
    ("toxic-hydride", read_crystal("antifluorite: H Se")),
    ("volatile-oxide", molecule_in(
        "Os O O O O", (0, 0, 0), (1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1), a=6
    )),
    ("xenon-oxide", read_crystal("ReO3: Xe O")),
]  # fmt: skip
HARMLESS = [
    "rocksalt: Na Cl", "perovskite: Cs Sn I", "perovskite: Sr Ti O", "zincblende: Ga P", "zincblende: Ga N",
    "wurtzite: Al N", "spinel: Mg Al O", "olivine-phosphate: Li Fe P O", "calcite: Ca C O", "quartz: Si O",
    "matlockite: Bi O Cl", "matlockite: Pb F Cl", "antiperovskite: Li O Cl", "Li3N: Li N", "half-Heusler: Ti Ni Sn",
    "ReO3: W O", "double-perovskite: Cs Ag Bi Br", "boron-nitride: B N", "AlB2: Mg B", "garnet: Ca Al Si O",
    "fluorite: Zr O", "zircon: Zr Si O", "perovskite: Cs Pb I", "rocksalt: Ti C", "antiperovskite: Mn N Ga",
]  # fmt: skip


@pytest.mark.parametrize(("name", "crystal"), MATCHES, ids=[f"{name} {c.formula}" for name, c in MATCHES])
def test_a_rule_recognises_its_class(name: str, crystal: Crystal) -> None:
    assert name in {alert.name for alert in screen_crystal(crystal)}


@pytest.mark.parametrize("text", HARMLESS)
def test_common_materials_pass(text: str) -> None:
    assert screen_crystal(read_crystal(text)) == ()


def test_an_isomer_of_a_fulminate_passes() -> None:
    assert "fulminate" not in {alert.name for alert in screen_crystal(CYANATE)}


def test_every_rule_has_a_group_a_reason_and_a_source() -> None:
    rules = crystal_rules()
    assert len({rule.name for rule in rules}) == len(rules)
    assert set(CONDITIONS) <= {rule.name for rule in rules}
    assert all(rule.group in GROUPS and rule.reason and rule.source and rule.elements for rule in rules)
    assert {rule.name for rule in rules} - {name for name, _ in MATCHES} == {"ammonium-nitrate"}


def test_ammonium_nitrate_is_recognised() -> None:
    nitrate = [(0, 0, 0), (1.25, 0, 0), (-0.625, 1.083, 0), (-0.625, -1.083, 0)]
    ammonium = [(3, 3, 3), (3.6, 3.6, 3.6), (3.6, 2.4, 2.4), (2.4, 3.6, 2.4), (2.4, 2.4, 3.6)]
    salt = molecule_in("N O O O N H H H H", *nitrate, *ammonium, a=6)
    assert "ammonium-nitrate" in {alert.name for alert in screen_crystal(salt)}


def test_the_gravest_group_comes_first() -> None:
    alerts = screen_crystal(read_crystal("zincblende: Pu As"))
    assert [alert.name for alert in alerts] == ["fissile-element", "arsenic"]
