"""The proposer on a bench of its own: seeds first, then children of what scored, nothing twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rdkit import Chem
from rdkit.Chem import Crippen

from sciagent.agent.proposers.evolve import Evolve
from sciagent.chemistry.editing.mutate_and_crossover import CROSSOVERS, OPERATIONS, EditLimits
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.proposer_interfaces import KnownCandidate, ProposalIn, ProposalOut, Turn
from sciagent.errors import InvalidCandidateError
from tests.support.subjects import MOLECULES
from tests.support.worths import worth

SEEDS = ("c1ccccc1", "CCO", "not a molecule", "c1ccncc1", "COc1ccccc1", "OCC")


class Bench:
    """A workbench that scores by logP at once, except the first `unscored` candidates."""

    def __init__(self, unscored: int = 0, gate: Callable[[str], str | None] = lambda smiles: None) -> None:
        self.gate = gate
        self.proposals: list[ProposalIn] = []
        self.scored: dict[str, KnownCandidate] = {}
        self.keys: set[str] = set()
        self._unscored = unscored

    def propose(self, proposals: Sequence[ProposalIn]) -> list[ProposalOut]:
        for one in proposals:
            self.proposals.append(one)
            try:
                mol = parse_molecule(one.text)
            except InvalidCandidateError:
                continue
            if mol.key not in self.keys and len(self.keys) >= self._unscored:
                value = 1 / (1 + 2.718 ** -float(Crippen.MolLogP(mol.mol)))
                self.scored[mol.key] = KnownCandidate(
                    mol.key, mol.smiles, worth(value), 1, False, len(self.keys), one.operation
                )
            self.keys.add(mol.key)
        return [ProposalOut(one.text, "new") for one in proposals]

    def best(self, n: int) -> list[KnownCandidate]:
        return sorted(self.scored.values(), key=lambda s: (-s.worth.expected_utility, s.seq))[:n]

    def key_of(self, candidate: Candidate) -> str:
        return candidate.key

    def missed_gate(self, candidate: Candidate) -> str | None:
        return self.gate(candidate.text)

    def known(self, candidate: Candidate) -> bool:
        return candidate.key in self.keys


@pytest.fixture(name="proposer")
def make_proposer(tmp_path: Path) -> Evolve:
    file = tmp_path / "seeds.csv"
    file.write_text("smiles\n" + "\n".join(SEEDS) + "\n")
    return Evolve(MOLECULES, file, limits=EditLimits(elements=("H", "C", "N", "O"), max_heavy_atoms=12))


def play(proposer: Evolve, bench: Bench, turns: int, limit: int = 4, cursor: dict[str, Any] | None = None) -> list[Any]:
    cursors = [cursor or {}]
    for number in range(turns):
        cursors.append(json.loads(json.dumps(proposer.turn(bench, Turn(number, 100 + number, cursors[-1]), limit))))
    return cursors


def test_seeds_come_first_and_as_they_stand(proposer: Evolve) -> None:
    bench = Bench()
    cursors = play(proposer, bench, 2)
    assert [p.text for p in bench.proposals] == list(SEEDS)
    assert {p.operation for p in bench.proposals} == {"seed"}
    assert cursors[1:] == [{"seeds": 4}, {"seeds": 6}]


def test_children_are_new_named_and_climb(proposer: Evolve) -> None:
    bench = Bench()
    cursors = play(proposer, bench, 30)
    children = bench.proposals[len(SEEDS) :]
    assert len(children) == 28 * 4
    keys = [parse_molecule(c.text).key for c in children]
    assert len(set(keys)) == len(keys) and not set(keys) & {parse_molecule(s).key for s in SEEDS if "not" not in s}
    assert {c.operation for c in children} <= {*OPERATIONS, *CROSSOVERS}
    assert all(c.parents for c in children)
    assert (
        bench.best(1)[0].worth.expected_utility
        > 0.9
        > max(s.worth.expected_utility for s in bench.scored.values() if s.operation == "seed")
    )
    assert sum(cursors[-1]["made"].values()) == pytest.approx(28 * 4, rel=0.2)


def test_nothing_is_proposed_that_the_checks_would_refuse(proposer: Evolve) -> None:
    bench = Bench()
    play(proposer, bench, 20)
    for child in bench.proposals[len(SEEDS) :]:
        mol = Chem.MolFromSmiles(child.text)
        assert {a.GetSymbol() for a in mol.GetAtoms()} <= {"C", "N", "O"} and mol.GetNumHeavyAtoms() <= 12


def test_seeds_breed_while_nothing_is_scored(proposer: Evolve) -> None:
    bench = Bench(unscored=10**6)
    play(proposer, bench, 4)
    assert len(bench.proposals) == len(SEEDS) + 8
    parents = {p for c in bench.proposals[len(SEEDS) :] for p in c.parents}
    assert parents <= {parse_molecule(text).key for text in ("c1ccccc1", "CCO", "c1ccncc1", "COc1ccccc1")}


def test_a_turn_depends_on_seed_cursor_and_ledger_alone(proposer: Evolve, tmp_path: Path) -> None:
    bench = Bench()
    cursors = play(proposer, bench, 6)
    done = len(bench.proposals)
    again = Evolve(
        MOLECULES, tmp_path / "seeds.csv", limits=EditLimits(elements=("H", "C", "N", "O"), max_heavy_atoms=12)
    )
    twin = Bench()
    twin.scored, twin.keys = dict(bench.scored), set(bench.keys)
    for one, where in ((proposer, bench), (again, twin)):
        one.turn(where, Turn(6, 42, cursors[-1]), 5)
    assert [p.text for p in bench.proposals[done:]] == [p.text for p in twin.proposals]


def test_without_any_molecule_there_is_nothing_to_do(tmp_path: Path) -> None:
    file = tmp_path / "empty.smi"
    file.write_text("not a molecule\n")
    proposer, bench = Evolve(MOLECULES, file), Bench()
    assert proposer.turn(bench, Turn(0, 1, {}), 4) == {"seeds": 1}
    assert proposer.turn(bench, Turn(1, 1, {"seeds": 1}), 4) is None


def test_no_child_that_misses_a_gate_is_proposed(proposer: Evolve) -> None:
    def logp(smiles: str) -> float:
        return float(Crippen.MolLogP(Chem.MolFromSmiles(smiles)))

    bench = Bench(gate=lambda smiles: "logp" if logp(smiles) > 1.8 else None)
    play(proposer, bench, 12)
    children = [logp(child.text) for child in bench.proposals[len(SEEDS) :]]
    assert len(children) == 10 * 4 and max(children) <= 1.8
    free = Bench()
    play(proposer, free, 12)
    assert max(logp(child.text) for child in free.proposals[len(SEEDS) :]) > 1.8, "without the gate some miss it"
