"""Layers, chains and molecules are told from bulk crystals by their bonds, and slabs by the vacuum around them."""

from __future__ import annotations

import pytest
from ase.build import bulk, fcc111, nanotube
from pymatgen.core import Lattice, Structure
from pymatgen.io.ase import AseAtomsAdaptor

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.conventional_cell_and_cif import conventional_cell
from sciagent.chemistry.crystals.layers_and_vacuum import bonded_part, part_in_vacuum, soft_vectors
from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated


def layer(height: float) -> Structure:
    """A layer of MoS2 in a hexagonal cell of this height, angstrom; its sulphur atoms lie 3.13 angstrom apart."""
    z = 1.565 / height
    positions = [[1 / 3, 2 / 3, 0.5], [2 / 3, 1 / 3, 0.5 + z], [2 / 3, 1 / 3, 0.5 - z]]
    return Structure(Lattice.hexagonal(3.16, height), ["Mo", "S", "S"], positions)


def crystal(atoms: object) -> Crystal:
    return crystal_from_structure(AseAtomsAdaptor.get_structure(atoms))


@pytest.mark.parametrize(
    ("prototype", "elements", "dimension"),
    [
        ("graphite", "C", 2),
        ("MoS2", "Mo S", 2),
        ("Bi2Te3", "Bi Te", 2),
        ("BiI3", "Bi I", 2),
        ("anatase", "Ti O", 3),
        ("tetragonal-perovskite", "Pb Ti O", 3),
        ("alpha-NaFeO2", "Li Co O", 3),
        ("MAX-211", "Ti Al C", 3),
        ("rocksalt", "Na Cl", 3),
        ("fcc", "Cu", 3),
    ],
)
def test_bonds_make_layers_or_bulk(prototype: str, elements: str, dimension: int) -> None:
    structure = conventional_cell(decorated(prototype, elements.split()).structure).structure
    assert bonded_part(structure).dimension == dimension
    assert soft_vectors(structure) == (False, False, dimension == 2)


def test_a_crystal_of_molecules_is_soft_everywhere() -> None:
    """Dry ice: Simon, Peters, Acta Cryst. B 36, 2750 (1980), a = 5.624 angstrom."""
    dry_ice = Structure.from_spacegroup("Pa-3", Lattice.cubic(5.624), ["C", "O"], [[0, 0, 0], [0.118, 0.118, 0.118]])
    assert soft_vectors(dry_ice) == (True, True, True)
    assert part_in_vacuum(crystal_from_structure(dry_ice)) is None


@pytest.mark.parametrize("height", [11.2, 18.0])
def test_a_layer_in_vacuum_is_a_slab(height: float) -> None:
    found = part_in_vacuum(crystal_from_structure(layer(height)))
    assert found is not None and found.name == "a slab"


def test_layers_at_the_distance_of_a_crystal_are_bulk() -> None:
    assert part_in_vacuum(crystal_from_structure(layer(6.15))) is None


def test_slabs_tubes_and_molecules_have_names() -> None:
    slab = fcc111("Al", (1, 1, 4), vacuum=5.0)
    tube = nanotube(4, 0, vacuum=5.0)
    for atoms in (slab, tube):
        atoms.pbc = True
    molecule = Structure(Lattice.cubic(10.0), ["C", "O", "O"], [[0.5, 0.5, z] for z in (0.5, 0.616, 0.384)])
    found = [part_in_vacuum(each) for each in (crystal(slab), crystal(tube), crystal_from_structure(molecule))]
    assert [part.name if part else "" for part in found] == ["a slab", "a chain", "a molecule"]


def test_open_and_loose_crystals_are_bulk() -> None:
    for loose in (bulk("Xe", "fcc", a=6.2), bulk("Cs", "bcc", a=6.14), bulk("Si", "diamond", a=6.8)):
        assert part_in_vacuum(crystal(loose)) is None
    for prototype, elements in (("garnet", "Ca Al Si O"), ("K2PtCl6", "K Pt Cl"), ("perovskite", "Cs Pb I")):
        assert part_in_vacuum(decorated(prototype, elements.split())) is None
