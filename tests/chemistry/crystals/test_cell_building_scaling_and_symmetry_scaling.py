"""The volume of the radii is near the measured one, and does not depend on the route."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean

import pytest

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import rescaled, tightness
from sciagent.chemistry.crystals.editable_places import ANY, accepted
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of

CRYSTALS = subject_of("crystal")

MEASURED = {
    "rocksalt: Na Cl": 22.43, "rocksalt: Mg O": 9.35, "rocksalt: Li I": 27.0, "rocksalt: K Br": 35.9,
    "rocksalt: Pb Te": 33.7, "rocksalt: Ti N": 9.53, "CsCl: Cs Cl": 34.97, "CsCl: Ni Al": 12.03,
    "zincblende: Zn S": 19.79, "zincblende: Ga As": 22.58, "diamond: Si": 20.02, "fcc: Cu": 11.81, "bcc: Na": 39.5,
    "fluorite: Ca F": 13.58, "fluorite: Ce O": 13.2, "antifluorite: Li O": 8.21, "perovskite: Sr Ti O": 11.91,
    "perovskite: Cs Sn I": 48.1, "perovskite: Cs Pb Br": 40.5, "perovskite: K Mg F": 12.7, "perovskite: Ba Zr O": 14.7,
    "rutile: Ti O": 10.41, "half-Heusler: Ti Ni Sn": 17.4, "double-perovskite: Cs Ag Bi Br": 35.6, "hcp: Mg": 23.2,
    "tetragonal-perovskite: Pb Ti O": 12.66, "corundum: Al O": 8.49, "quartz: Si O": 12.56, "calcite: Ca C O": 12.26,
    "stibnite: Sb S": 24.4, "spinel: Mg Al O": 9.42,
}  # fmt: skip
"""Measured volumes per atom, in cubic angstrom, from the cells of textbooks."""


def test_lengths_are_four_percent_off_on_average() -> None:
    crystals = {text: crystal_from_shorthand(text) for text in MEASURED}
    errors = {t: (c.structure.volume / c.n_atoms / MEASURED[t]) ** (1 / 3) - 1 for t, c in crystals.items()}
    assert fmean(map(abs, errors.values())) < 0.045, errors
    assert max(map(abs, errors.values())) < 0.1, errors


@pytest.mark.parametrize("text", ["tetragonal-perovskite: Pb Ti O", "fcc: Cu", "spinel: Mg Al O"])
def test_scaling_twice_changes_nothing(text: str) -> None:
    structure = crystal_from_shorthand(text).structure.copy()
    assert tightness(structure) == pytest.approx(1, abs=1e-6)
    structure.scale_lattice(3.7 * structure.volume)
    assert rescaled(structure).volume == pytest.approx(crystal_from_shorthand(text).structure.volume, rel=1e-6)


def test_a_cell_that_was_given_is_never_called_estimated() -> None:
    """Magnesium and oxygen have radii of 1.5 and 0.6 angstrom, so that a given edge of 4.2 has the same volume."""
    estimated = crystal_from_shorthand("rocksalt: Mg O")
    given = estimated.structure.copy()
    given.scale_lattice(4.2**3 / 4)
    measured = read_crystal(given.to(fmt="poscar"))
    assert measured.key == estimated.key
    assert CRYSTALS.caveat(CRYSTALS.notation(measured)) == ""
    assert "an estimate from atomic radii" in CRYSTALS.caveat(CRYSTALS.notation(estimated))


def test_the_estimate_is_known_of_children_and_of_restored_crystals() -> None:
    estimated = crystal_from_shorthand("rocksalt: Mg O")
    for again in (
        Crystal.from_payload(estimated.payload()),
        Crystal.of_fields(asdict(estimated)),
        read_crystal(CRYSTALS.notation(estimated)),
        accepted(estimated.structure.copy().replace_species({"O": "S"}), estimated, ANY),
    ):
        assert again is not None and again.has_estimated_volume
