"""Children are molecules, differ from their parents, and depend on nothing but the seed."""

from __future__ import annotations

import csv
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from rdkit import Chem

from sciagent.chemistry.edits import OPERATIONS, TEMPLATES, crossover, mutate
from sciagent.chemistry.messages import rdkit_messages
from sciagent.chemistry.molecule import parse_molecule

SEEDS = Path(__file__).parents[2] / "campaigns" / "quickstart_seeds.csv"


@pytest.fixture(scope="module")
def seeds() -> list[str]:
    with SEEDS.open(newline="") as file:
        return [row["smiles"] for row in csv.DictReader(file)]


def test_the_seeds_are_thirty_small_conjugated_molecules(seeds):
    molecules = [parse_molecule(smiles) for smiles in seeds]
    assert len({m.key for m in molecules}) == len(seeds) >= 30
    assert all(m.heavy_atoms <= 12 and m.charge == 0 and m.multiplicity == 1 for m in molecules)
    assert [m.smiles for m in molecules] == seeds


def test_an_evolution_of_a_thousand_steps_stays_in_chemistry(seeds, capfd):
    rng = random.Random(7)
    pool, given = list(seeds), 0
    for _ in range(1000):
        start = rng.choice(pool)
        result = mutate(start, rng, max_heavy_atoms=25)
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
    assert given > 950
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_reachable(operation, seeds):
    pool = [*seeds, "CCCOC", "C=CCC", "CCCNC", "CC(=O)CCN"]
    children = [mutate(smiles, random.Random(seed), operations=(operation,)) for seed in range(3) for smiles in pool]
    made = [child for child in children if child is not None]
    assert made
    assert {name for _, name in made} == {operation}


def test_every_template_fits_some_molecule(seeds):
    parents = [*seeds, "CCCOC", "CCCNC", "CSC", "CC(C)=S", "CCC=CC", "CCNC(C)=O", "O=C1C=CC(=O)C=C1", "CCC=CCC"]
    mols = [Chem.MolFromSmiles(smiles) for smiles in parents]
    idle = []
    for name, templates in TEMPLATES.items():
        for template in templates:
            with rdkit_messages():
                reaction = Chem.rdChemReactions.ReactionFromSmarts(template)
                reaction.Initialize()
                if not any(_sane(product[0]) for mol in mols for product in reaction.RunReactants((mol,))):
                    idle.append((name, template))
    assert idle == []


def _sane(product: Chem.Mol) -> bool:
    try:
        Chem.SanitizeMol(product)
    except ValueError:
        return False
    return True


def test_drawing_uses_all_operations(seeds):
    rng = random.Random(0)
    pool = list(seeds)
    used = set()
    for _ in range(600):
        if result := mutate(rng.choice(pool), rng):
            pool.append(result[0])
            used.add(result[1])
    assert used == set(OPERATIONS)


def test_the_spelling_of_the_parent_does_not_matter():
    written = ("CN(C)c1ccc(C=O)cc1", "c1(C=O)ccc(cc1)N(C)C", "O=CC1=CC=C(N(C)C)C=C1")
    assert len({tuple(mutate(text, random.Random(seed)) for seed in range(20)) for text in written}) == 1


_PROGRAM = """
import random
from sciagent.chemistry.edits import crossover, mutate
rng = random.Random(3)
smiles = "COc1ccc(-c2cccs2)cc1"
for _ in range(40):
    smiles = (mutate(smiles, rng, max_heavy_atoms=20) or (smiles,))[0]
    smiles = crossover(smiles, "N#Cc1ccc(N)cc1", rng, max_heavy_atoms=20) or smiles
print(smiles)
"""


def test_a_seed_gives_the_same_child_in_every_process():
    ends = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(ends) == 1


def test_crossover_joins_pieces_of_both(seeds):
    rng = random.Random(5)
    given = 0
    for _ in range(300):
        a, b = rng.sample(seeds, 2)
        child = crossover(a, b, rng)
        if child is not None:
            given += 1
            assert parse_molecule(child).smiles == child
            assert child not in (a, b)
    assert given > 270


def test_new_double_bonds_have_a_geometry():
    for seed in range(200):
        result = mutate("c1ccc(-c2ccccc2)cc1", random.Random(seed), operations=("insert linker",))
        assert result is not None
        stereo = Chem.FindPotentialStereo(Chem.MolFromSmiles(result[0]))
        assert all(one.specified != Chem.StereoSpecified.Unspecified for one in stereo)


@pytest.mark.parametrize("text", ["", "not a smiles", "C1CC", "[He]"])
def test_what_cannot_be_edited_gives_none(text):
    assert mutate(text, random.Random(0)) is None
    assert crossover(text, text, random.Random(0)) is None
