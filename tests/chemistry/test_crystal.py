"""One crystal has one key, however its cell is drawn."""

from __future__ import annotations

import builtins
import json
import random
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import candidate_from_payload
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError, UsageError

build = partial(partial, Structure.from_spacegroup)  # made when a test asks: some take half a second

CRYSTALS: dict[str, Any] = {
    "rock salt": build("Fm-3m", Lattice.cubic(5.63), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]]),
    "caesium chloride": build("Pm-3m", Lattice.cubic(4.123), ["Cs", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]]),
    "diamond": build("Fd-3m", Lattice.cubic(3.567), ["C"], [[0, 0, 0]]),
    "sphalerite": build("F-43m", Lattice.cubic(5.41), ["Zn", "S"], [[0, 0, 0], [0.25, 0.25, 0.25]]),
    "wurtzite": build("P6_3mc", Lattice.hexagonal(3.82, 6.26), ["Zn", "S"], [[1 / 3, 2 / 3, 0], [1 / 3, 2 / 3, 0.375]]),
    "rutile": build("P4_2/mnm", Lattice.tetragonal(4.594, 2.959), ["Ti", "O"], [[0, 0, 0], [0.305, 0.305, 0]]),
    "anatase": build("I4_1/amd", Lattice.tetragonal(3.785, 9.514), ["Ti", "O"], [[0, 0, 0], [0, 0, 0.208]]),
    "perovskite": build("Pm-3m", Lattice.cubic(3.905), ["Sr", "Ti", "O"], [[0.5, 0.5, 0.5], [0, 0, 0], [0.5, 0, 0]]),
    "quartz": build(
        "P3_221", Lattice.hexagonal(4.913, 5.405), ["Si", "O"], [[0.4697, 0, 2 / 3], [0.4135, 0.2669, 0.7858]]
    ),
    "magnesium": build("P6_3/mmc", Lattice.hexagonal(3.209, 5.211), ["Mg"], [[1 / 3, 2 / 3, 0.25]]),
    "baddeleyite": build(
        "P2_1/c",
        Lattice.monoclinic(5.15, 5.20, 5.32, 99.2),
        ["Zr", "O", "O"],
        [[0.275, 0.04, 0.208], [0.07, 0.33, 0.345], [0.45, 0.757, 0.479]],
    ),
    "orthorhombic": build(
        "Pmmm",
        Lattice.orthorhombic(5.1, 3.9, 7.3),
        ["Y", "Ba", "O", "O"],
        [[0, 0, 0], [0.5, 0.5, 0.31], [0.5, 0, 0.1], [0, 0.5, 0.2]],
    ),
    "triclinic": partial(
        Structure,
        Lattice.from_parameters(5.1, 6.2, 7.3, 81, 77, 69),
        ["Na", "Cl", "O", "H"],
        [[0.1, 0.2, 0.3], [0.6, 0.7, 0.1], [0.3, 0.9, 0.8], [0.35, 0.95, 0.9]],
    ),
}


@cache
def made(name: str) -> Any:
    """The structure of this name, to be read or copied."""
    return CRYSTALS[name]()


def drawings(structure: Any, rng: random.Random) -> Iterator[Any]:
    """The same crystal: relabelled, shifted, rotated, in larger cells and along other lattice vectors."""
    for _ in range(8):
        matrix = np.zeros((3, 3))
        while not 1 <= round(np.linalg.det(matrix)) <= 3:  # a negative determinant would mirror it
            matrix = np.array([[rng.randint(-1, 2) for _ in range(3)] for _ in range(3)])
        other = structure.copy()
        other.make_supercell(matrix)
        other.translate_sites(list(range(len(other))), [rng.random() for _ in range(3)])
        sites = rng.sample(list(other), len(other))
        turned = Lattice.from_parameters(*other.lattice.parameters)
        yield Structure(turned, [s.specie for s in sites], [s.frac_coords for s in sites])
    yield structure.get_primitive_structure()
    yield structure.get_reduced_structure()


@pytest.mark.parametrize("name", CRYSTALS)
def test_the_key_survives_every_drawing(name):
    crystal = crystal_from_structure(made(name))
    for other in drawings(made(name), random.Random(name)):
        assert crystal_from_structure(other).key == crystal.key, other


@pytest.mark.parametrize("name", CRYSTALS)
def test_a_payload_makes_the_same_crystal(name):
    crystal = crystal_from_structure(made(name))
    again = candidate_from_payload("crystal", json.loads(json.dumps(crystal.payload())))
    assert again.key == crystal.key
    assert isinstance(again, Crystal)
    assert again.structure.num_sites == crystal.n_atoms


def test_tetragonal_iron_is_not_made_cubic():
    cell, middle = Lattice.tetragonal(2.8, 2.8 * 1.06), [[0, 0, 0], [0.5, 0.5, 0.5]]
    crystal = crystal_from_structure(Structure(cell, ["Fe", "Fe"], middle))
    assert crystal.space_group == "I4/mmm"
    volume = float(np.linalg.det(np.array(crystal.lattice)))
    assert abs(volume) == pytest.approx(cell.volume / 2)
    cubic = crystal_from_structure(Structure(Lattice.cubic(2.8 * 1.06 ** (1 / 3)), ["Fe", "Fe"], middle))
    assert cubic.space_group == "Im-3m" and cubic.key != crystal.key


def test_different_crystals_have_different_keys():
    assert len({crystal_from_structure(one).key for one in map(made, CRYSTALS)}) == len(CRYSTALS)


def test_a_percent_of_strain_and_a_swap_of_elements_are_other_crystals():
    salt = made("rock salt")
    strained, swapped = salt.copy(), salt.copy()
    strained.scale_lattice(salt.volume * 1.03)
    swapped.replace_species({"Na": "K"})
    assert len({crystal_from_structure(one).key for one in (salt, strained, swapped)}) == 3


def test_enantiomorphic_space_groups_are_told_apart():
    left = made("quartz")
    right = Structure(left.lattice, left.species, left.frac_coords)
    mirrored = Structure(Lattice(right.lattice.matrix * [1, 1, -1]), right.species, right.frac_coords)
    assert crystal_from_structure(left).key != crystal_from_structure(mirrored).key


def test_oxidation_states_do_not_matter():
    decorated = made("rock salt").copy()
    decorated.add_oxidation_state_by_element({"Na": 1, "Cl": -1})
    assert crystal_from_structure(decorated) == crystal_from_structure(made("rock salt"))


def test_what_a_person_reads():
    crystal = crystal_from_structure(made("rock salt"))
    assert crystal.text == "NaCl Fm-3m"
    assert (crystal.kind, crystal.formula, crystal.n_atoms, crystal.inchikey) == ("crystal", "NaCl", 2, None)
    assert isinstance(crystal, Candidate)
    assert len(crystal.key) == 64


def test_overlapping_sites_are_refused():
    near = Structure(Lattice.cubic(4), ["Na", "Cl"], [[0, 0, 0], [0.05, 0, 0]])
    with pytest.raises(InvalidCandidateError) as caught:
        crystal_from_structure(near)
    assert caught.value.reason is Reason.OVERLAPPING_ATOMS


@pytest.mark.parametrize(
    ("structure", "reason"),
    [
        (Structure(Lattice.cubic(4), [{"Na": 0.5, "K": 0.5}], [[0, 0, 0]]), Reason.UNPARSABLE),
        (Structure(Lattice.cubic(4), ["X"], [[0, 0, 0]]), Reason.UNKNOWN_ELEMENT),
        (Structure(Lattice.cubic(0.3), ["Na"], [[0, 0, 0]]), Reason.OVERLAPPING_ATOMS),
        (Structure(Lattice.cubic(4), ["Na"], [[float("nan"), 0, 0]]), Reason.NOT_FINITE),
        (Structure(Lattice.cubic(4), [], []), Reason.EMPTY),
        (Structure(Lattice.cubic(4), ["Cu"], [[0, 0, 0]]) * (9, 8, 7), Reason.TOO_LARGE),
    ],
)
def test_what_is_no_crystal_gets_its_reason(structure, reason):
    with pytest.raises(InvalidCandidateError) as caught:
        crystal_from_structure(structure)
    assert caught.value.reason is reason


@pytest.mark.parametrize("payload", [{}, {"lattice": [1], "species": ["Na"], "coordinates": [[0, 0, 0]]}])
def test_a_broken_payload_is_refused(payload):
    with pytest.raises(InvalidCandidateError):
        Crystal.from_payload(payload)


def test_without_pymatgen_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("pymatgen"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'sciagent\[crystals\]'"):
        Crystal.from_payload({})
