"""Children are molecules, differ from their parents, and depend on nothing but the seed."""

from __future__ import annotations

import random

import pytest
from rdkit import Chem

from sciagent.chemistry.editing.mutate_and_crossover import CROSSOVERS, OPERATIONS, EditLimits, crossover, mutate
from sciagent.chemistry.molecule import parse_molecule
from tests.chemistry.editing.children import rings_of
from tests.support.hash_seeds import outputs


def test_the_seeds_are_thirty_small_conjugated_molecules(seeds):
    molecules = [parse_molecule(smiles) for smiles in seeds]
    assert len({m.key for m in molecules}) == len(seeds) >= 30
    assert all(m.heavy_atoms <= 12 and m.charge == 0 and m.multiplicity == 1 for m in molecules)
    assert [m.smiles for m in molecules] == seeds


def test_an_evolution_of_five_hundred_steps_stays_in_chemistry(seeds, capfd):
    rng = random.Random(7)
    pool, given = list(seeds), 0
    for _ in range(500):
        start = rng.choice(pool)
        result = mutate(start, rng, limits=EditLimits(max_heavy_atoms=25))
        if result is None:
            continue
        given += 1
        child, operation = result
        molecule = parse_molecule(child)
        assert operation in OPERATIONS
        assert molecule.smiles == child != start
        assert molecule.heavy_atoms <= 25
        assert molecule.charge == 0 and molecule.multiplicity == 1
        pool.append(child)
    assert given > 475
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_reachable(operation, seeds):
    pool = [*seeds, "CCCOC", "C=CCC", "CCCNC", "CC(=O)CCN"]
    children = [mutate(smiles, random.Random(seed), operations=(operation,)) for seed in range(3) for smiles in pool]
    made = [child for child in children if child is not None]
    assert made
    assert {name for _, name in made} == {operation}


def test_drawing_uses_all_operations(seeds):
    rng = random.Random(0)
    pool = list(seeds)
    used = set()
    for _ in range(900):
        if result := mutate(rng.choice(pool), rng):
            pool.append(result[0])
            used.add(result[1])
        if used == set(OPERATIONS):
            return
    assert used == set(OPERATIONS)


def test_the_spelling_of_the_parent_does_not_matter():
    written = ("CN(C)c1ccc(C=O)cc1", "c1(C=O)ccc(cc1)N(C)C", "O=CC1=CC=C(N(C)C)C=C1")
    assert len({tuple(mutate(text, random.Random(seed)) for seed in range(20)) for text in written}) == 1


_PROGRAM = """
import random
from sciagent.chemistry.editing.mutate_and_crossover import EditLimits, crossover, mutate
rng, limits = random.Random(3), EditLimits(max_heavy_atoms=20)
smiles = "COc1ccc(-c2cccs2)cc1"
for _ in range(40):
    smiles = (mutate(smiles, rng, limits=limits) or (smiles,))[0]
    smiles = (crossover(smiles, "N#Cc1ccc(N)cc1", rng, limits=limits) or (smiles,))[0]
print(smiles)
"""


def test_a_seed_gives_the_same_child_in_every_process():
    assert len(outputs(_PROGRAM)) == 1


@pytest.mark.parametrize(("operation", "least"), [("chain crossover", 130), ("ring crossover", 90)])
def test_crossover_joins_pieces_of_both(seeds, operation, least):
    rng = random.Random(5)
    given = 0
    for _ in range(150):
        a, b = rng.sample(seeds, 2)
        made = crossover(a, b, rng, operations=(operation,))
        if made is not None:
            given += 1
            child, name = made
            assert name == operation
            assert parse_molecule(child).smiles == child
            assert child not in (a, b)
    assert given > least


def test_a_ring_crossover_can_give_what_neither_parent_has():
    """Half of a pyridine and half of a cyclohexane close to rings that no chain cut gives."""
    rng, rings = random.Random(1), set()
    for _ in range(60):
        made = crossover("Cc1ccncc1", "CC1CCCCC1", rng, operations=("ring crossover",))
        if made is not None:
            rings.add(len(rings_of(made[0])))
    assert 1 in rings


LIMITS = EditLimits(elements=("H", "C", "N", "O"), min_heavy_atoms=6, max_heavy_atoms=12, max_rings=2, max_ring_size=6)


def test_no_child_is_outside_the_limits(seeds):
    rng = random.Random(3)
    inside = [s for s in seeds if not set(s) & set("SFs") and Chem.MolFromSmiles(s).GetNumHeavyAtoms() <= 12]
    pool, sizes = [s for s in inside if "c2cccc-2" not in s], []
    for _ in range(200):
        a, b = rng.sample(pool, 2)
        made = mutate(a, rng, limits=LIMITS) if rng.random() < 0.7 else crossover(a, b, rng, limits=LIMITS)
        if made is None:
            continue
        child = Chem.MolFromSmiles(made[0])
        assert {atom.GetSymbol() for atom in child.GetAtoms()} <= {"C", "N", "O"}, made
        assert 6 <= child.GetNumHeavyAtoms() <= 12
        rings = child.GetRingInfo().AtomRings()
        assert len(rings) <= 2 and max(map(len, rings), default=0) <= 6
        sizes.append(child.GetNumHeavyAtoms())
    assert len(sizes) > 175 and len(set(sizes)) > 4


def test_children_keep_to_charges_ring_sizes_and_defined_stereo_where_asked():
    limits = EditLimits(charges=(0,), min_ring_size=5, defined_stereo=True)
    rng, given = random.Random(2), 0
    for _ in range(150):
        first, second = rng.sample(("C[NH3+]", "CC(=O)[O-]", "CCc1ccccc1", "CC1CCCCC1", "C[C@H](N)CO"), 2)
        made = (
            crossover(first, second, rng, limits=limits) if rng.random() < 0.5 else mutate(second, rng, limits=limits)
        )
        if made is None:
            continue
        given += 1
        child = Chem.MolFromSmiles(made[0])
        assert Chem.GetFormalCharge(child) == 0 and min(map(len, rings_of(made[0])), default=5) >= 5
        assert all(one.specified != Chem.StereoSpecified.Unspecified for one in Chem.FindPotentialStereo(child)), made
    assert given > 50


def test_a_forbidden_pattern_never_appears():
    limits = EditLimits(forbidden=("[NX3;H2]", "C#N"))
    made = [mutate("Oc1ccccc1", random.Random(s), operations=("add substituent",), limits=limits) for s in range(80)]
    groups = {child for child, _ in filter(None, made)}
    assert len(groups) > 15
    assert not any(
        Chem.MolFromSmiles(g).HasSubstructMatch(Chem.MolFromSmarts(f)) for g in groups for f in limits.forbidden
    )


def test_new_double_bonds_have_a_geometry():
    for seed in range(80):
        result = mutate("c1ccc(-c2ccccc2)cc1", random.Random(seed), operations=("insert linker",))
        assert result is not None
        stereo = Chem.FindPotentialStereo(Chem.MolFromSmiles(result[0]))
        assert all(one.specified != Chem.StereoSpecified.Unspecified for one in stereo)


@pytest.mark.parametrize("text", ["", "not a smiles", "C1CC", "[He]"])
def test_what_cannot_be_edited_gives_none(text):
    assert mutate(text, random.Random(0)) is None
    assert crossover(text, text, random.Random(0)) is None
    assert set(CROSSOVERS).isdisjoint(OPERATIONS)


def test_a_required_pattern_is_never_lost():
    limits = EditLimits(required=("c1ccncc1", "[OX2]"))
    made = [mutate("COc1ccncc1", random.Random(seed), limits=limits) for seed in range(80)]
    children = {child for child, _ in filter(None, made)}
    assert len(children) > 15
    for smarts in limits.required:
        assert all(Chem.MolFromSmiles(child).HasSubstructMatch(Chem.MolFromSmarts(smarts)) for child in children)
