"""The search finds what scores, keeps scaffolds apart, never repeats itself, and depends on nothing but its seed."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from rdkit import Chem
from rdkit.Chem import Crippen

from sciagent.agent.proposers import evolve
from sciagent.agent.proposers.evolve import FLOOR, HALF_LIFE, KEPT_PER_PLACE, GeneticSearch, OperatorChoice, decay, rank
from sciagent.chemistry.editing.mutate_and_crossover import CROSSOVERS, OPERATIONS, EditLimits
from sciagent.chemistry.subjects.molecule_edits import MoleculeEdits, scaffold_of
from tests.support.hash_seeds import outputs

START = ("c1ccccc1", "CCO", "CC(=O)O", "c1ccncc1", "C1CCCCC1", "CCN(CC)CC", "COc1ccccc1", "CC#N")
LIMITS = EditLimits(elements=("H", "C", "N", "O"), max_heavy_atoms=16)


def logp(smiles: str) -> float:
    return float(Crippen.MolLogP(Chem.MolFromSmiles(smiles)))


def evolved(seed: int, children: int, batch: int = 5) -> tuple[GeneticSearch, list[str]]:
    """A search that maximises logP, and what it asked for."""
    search, rng, asked = GeneticSearch(MoleculeEdits(), limits=LIMITS), random.Random(seed), list[str]()
    for smiles in START:
        search.tell(smiles, (logp(smiles),))
    while len(asked) < children:
        for child in search.ask(batch, rng):
            asked.append(child.text)
            search.tell(child.text, (logp(child.text),), child.operation)
    return search, asked


@pytest.fixture(scope="module")
def run() -> tuple[GeneticSearch, list[str]]:
    return evolved(1, 300)


def test_it_climbs_far_above_where_it_started(run: tuple[GeneticSearch, list[str]]) -> None:
    search, _ = run
    best = search.population()[:10]
    assert sum(m.fitness[0] for m in best) / 10 > max(map(logp, START)) + 2
    assert [m.fitness for m in best] == sorted((m.fitness for m in best), reverse=True)


def test_nothing_is_asked_for_twice_and_all_is_within_the_limits(run: tuple[GeneticSearch, list[str]]) -> None:
    _, asked = run
    assert len(set(asked)) == len(asked) and not set(asked) & set(START)
    for smiles in asked:
        mol = Chem.MolFromSmiles(smiles)
        assert mol.GetNumHeavyAtoms() <= 16 and Chem.MolToSmiles(mol) == smiles
        assert {a.GetSymbol() for a in mol.GetAtoms()} <= {"C", "N", "O"}


def test_a_scaffold_has_so_many_places_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evolve, "POPULATION", 40)
    monkeypatch.setattr(evolve, "PER_GROUP", 4)
    search, _ = evolved(2, 120)
    scaffolds = Counter(scaffold_of(member.text) for member in search.population())
    assert max(scaffolds.values()) == 4 and len(scaffolds) >= 8


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evolve, "POPULATION", 10)
    search = GeneticSearch(MoleculeEdits())
    for n in range(1, 200):
        search.tell("C" * n, fitness=(float(n % 53),), number=n)
    assert len(search._members) == len(search._texts) == 10 * KEPT_PER_PLACE
    assert [m.fitness[0] for m in search.population()] == [52.0] * 3 + [51.0] * 3 + [50.0] * 3 + [49.0]
    assert [m.number for m in search.population()][:3] == [52, 105, 158], "equal scores in order of arrival"
    assert search._members[-1].fitness == (37.0,)


def test_what_is_told_twice_counts_once() -> None:
    search = GeneticSearch(MoleculeEdits())
    search.tell("CCO", (0.5,))
    search.tell("CCO", (0.9,))
    assert [(m.text, m.fitness) for m in search.population()] == [("CCO", (0.5,))]


def test_what_is_known_elsewhere_is_not_asked_for() -> None:
    search = GeneticSearch(MoleculeEdits(), known=lambda smiles: "N" in smiles or "n" in smiles)
    for smiles in START:
        search.tell(smiles, (logp(smiles),))
    children = search.ask(40, random.Random(0))
    assert len(children) == 40
    assert not any(set(c.text) & set("Nn") for c in children)


def test_without_molecules_or_ways_on_it_gives_nothing() -> None:
    assert GeneticSearch(MoleculeEdits()).ask(5, random.Random(0)) == []
    stuck = GeneticSearch(MoleculeEdits(), known=lambda smiles: True)
    stuck.tell("C", (1.0,))
    assert stuck.ask(2, random.Random(0)) == []


def test_parents_and_operations_of_a_child_are_told(run: tuple[GeneticSearch, list[str]]) -> None:
    search, _ = run
    members = {m.text for m in search.population()}
    operations = set()
    for child in search.ask(60, random.Random(9)):
        assert set(child.parents) <= members
        assert len(child.parents) == (2 if child.operation in CROSSOVERS else 1)
        operations.add(child.operation)
    assert operations <= {*OPERATIONS, *CROSSOVERS} and len(operations) > 10


def test_a_search_goes_on_from_its_state() -> None:
    first, _ = evolved(3, 60)
    again = GeneticSearch(MoleculeEdits(), limits=LIMITS, made=first.made)
    for m in sorted(first._members, key=lambda m: m.number):
        again.tell(m.text, m.fitness, m.operation, number=m.number)
    assert again.ask(10, random.Random(4)) == first.ask(10, random.Random(4))


_PROGRAM = """
from tests.agent.proposers.test_evolve_genetic import evolved
print(*evolved(7, 60)[1])
"""


def test_a_seed_gives_the_same_children_in_every_process() -> None:
    assert len(outputs(_PROGRAM)) == 1
    assert evolved(8, 10)[1] != evolved(9, 10)[1]


def test_ranks_are_drawn_evenly_over_their_doublings() -> None:
    rng = random.Random(0)
    drawn = Counter((rank(255, rng) + 1).bit_length() for _ in range(8000))  # ranks 0, 1-2, 3-6, …, 127-254
    assert set(drawn) == set(range(1, 9))
    assert all(880 < n < 1120 for n in drawn.values())


@pytest.mark.parametrize(
    ("smiles", "scaffold"),
    [
        ("CCc1ccc(C(=O)N)cc1", "c1ccccc1"),
        ("C[C@H]1CCCN1Cc1ccccc1", "c1ccc(CN2CCCC2)cc1"),
        ("CCCO", "4 atoms without a ring"),
    ],
)
def test_scaffolds_are_murckos_without_stereo(smiles: str, scaffold: str) -> None:
    assert scaffold_of(smiles) == scaffold


NAMES = {"a": 1.0, "b": 1.0, "c": 1.0}


def choice(made: dict[str, float] | None = None) -> OperatorChoice:
    return OperatorChoice(NAMES, made)


def test_without_evidence_all_are_alike() -> None:
    assert choice().weights({}) == pytest.approx([1 / 3] * 3)
    assert OperatorChoice({"a": 3.0, "b": 1.0}).weights({}) == pytest.approx([0.75, 0.25])


def test_what_survives_is_drawn_more_and_what_does_not_keeps_the_floor() -> None:
    weights = choice({"a": 300.0, "b": 300.0, "c": 300.0}).weights({"a": 60.0, "b": 20.0})
    assert sum(weights) == pytest.approx(1)
    assert weights[0] > weights[1] > weights[2] > FLOOR / 3
    # rates (60, 20, 0 + 10 * 90 / 910) / 310 and a share FLOOR of the mean rate for everybody
    prior = 10 * (80 + 10) / (900 + 10)
    rates = [(kept + prior) / 310 for kept in (60, 20, 0)]
    expected = [FLOOR * sum(rates) / 3 + (1 - FLOOR) * rate for rate in rates]
    assert weights == pytest.approx([e / sum(expected) for e in expected])


def test_counts_fade_with_every_child() -> None:
    one = choice()
    one.count("a")
    for _ in range(int(HALF_LIFE)):
        one.count("b")
    assert one.made["a"] == pytest.approx(0.5)
    assert one.made["b"] == pytest.approx(sum(decay(age) for age in range(int(HALF_LIFE))))
    assert decay(0) == 1 and decay(2 * HALF_LIFE) == pytest.approx(0.25)


def test_counts_of_operators_go_through_json() -> None:
    one = choice()
    one.count("b")
    again = OperatorChoice(NAMES, json.loads(json.dumps(one.made)))
    assert again.weights({"b": 1.0}) == one.weights({"b": 1.0})
    assert OperatorChoice(NAMES, {"gone": 5.0}).made == {"a": 0.0, "b": 0.0, "c": 0.0}


def test_draws_follow_the_weights() -> None:
    rng = random.Random(0)
    drawn = Counter(choice().draw(rng, [0.7, 0.3, 0.0]) for _ in range(2000))
    assert drawn["c"] == 0 and 1330 < drawn["a"] < 1470
