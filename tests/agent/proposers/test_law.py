"""The proposer `law` on a bench that measures logP at once: seeds first, then what the law takes for hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit.Chem import Crippen

from sciagent.agent.proposers.evolve import Evolve
from sciagent.agent.proposers.law import LawSearch
from sciagent.chemistry.editing.mutate_and_crossover import EditLimits
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.objectives import Direction, Objective, Window
from sciagent.domain.proposer_interfaces import MeasuredCandidate, PastProperty, PastValues, Turn
from tests.agent.proposers.test_evolve import SEEDS, Bench, play
from tests.support.subjects import MOLECULES
from tests.support.worths import worth

WANTED = Objective("logp", Direction.WINDOW, Window(2.9, 3.1))
LIMITS = EditLimits(elements=("H", "C", "N", "O"), max_heavy_atoms=14)


class Measuring(Bench):
    """A bench whose candidates have a logP; its worth falls with the distance from the window."""

    def past(self, campaigns: Sequence[str], law: str | None) -> PastValues:
        assert not campaigns and law is None
        return {}

    def measured(self) -> list[MeasuredCandidate]:
        found = []
        for each in self.scored.values():
            value = float(Crippen.MolLogP(parse_molecule(each.text).mol))
            valued = worth(float(np.exp(-abs(value - 3.0))))
            found.append(MeasuredCandidate(each.text, valued, each.seq, values={"logp": value}, key=each.key))
        return sorted(found, key=lambda each: -each.worth.expected_utility)

    def best(self, n: int) -> list:  # type: ignore[type-arg]
        by_key = {each.key: each for each in self.measured()}
        ranked = [self.scored[key] for key in by_key]
        return ranked[:n]

    def hits(self) -> int:
        return sum(2.9 <= each.values["logp"] <= 3.1 for each in self.measured())


@pytest.fixture(name="seeds")
def make_seeds(tmp_path: Path) -> Path:
    file = tmp_path / "seeds.csv"
    file.write_text("smiles\n" + "\n".join(SEEDS) + "\n")
    return file


def law(seeds: Path, **more: Any) -> LawSearch:
    return LawSearch(MOLECULES, seeds, [WANTED], pool=64, limits=LIMITS, **more)


def test_it_finds_more_hits_than_the_search_whose_children_it_chooses_from(seeds: Path) -> None:
    chosen, searched = Measuring(), Measuring()
    play(law(seeds), chosen, 9, limit=6)
    play(Evolve(MOLECULES, seeds, limits=LIMITS), searched, 9, limit=6)
    assert [each.text for each in chosen.proposals[:6]] == list(SEEDS)
    assert len(chosen.proposals) == len(searched.proposals) == 54
    assert chosen.hits() >= 2 * max(searched.hits(), 3)


def test_a_turn_depends_on_its_seed_and_the_ledger_alone(seeds: Path) -> None:
    first, second = Measuring(), Measuring()
    play(law(seeds), first, 5)
    halfway = play(law(seeds), second, 3)[-1]
    resumed = law(seeds)
    for number in (3, 4):
        halfway = resumed.turn(second, Turn(number, 100 + number, halfway), 4) or {}
    assert [each.text for each in second.proposals] == [each.text for each in first.proposals]


def test_what_is_known_or_misses_a_gate_is_passed_over(seeds: Path) -> None:
    bench = Measuring(gate=lambda smiles: "too rich in oxygen" if smiles.upper().count("O") > 1 else None)
    play(law(seeds), bench, 6)
    texts = [each.text for each in bench.proposals[6:]]
    assert len(set(texts)) == len(texts) > 0 and not set(texts) & set(SEEDS)
    assert all(text.upper().count("O") <= 1 for text in texts)


def test_it_begins_before_anything_is_measured(seeds: Path) -> None:
    bench = Measuring(unscored=100)
    play(law(seeds), bench, 3)
    assert len(bench.proposals) > len(SEEDS)


class Remembering(Measuring):
    """A bench in whose ledger other campaigns have measured."""

    def __init__(self, past: Mapping[str, float]) -> None:
        super().__init__()
        self.remembered = past

    def past(self, campaigns: Sequence[str], law: str | None) -> PastValues:
        assert list(campaigns) == ["earlier"] and law is None
        return {"logp": PastProperty(self.remembered, None)}


@pytest.fixture(name="earlier")
def make_earlier(seeds: Path) -> dict[str, float]:
    """The values that a search from the same seeds has measured."""
    bench = Measuring()
    play(Evolve(MOLECULES, seeds, limits=LIMITS), bench, 31, limit=6)
    return {each.text: each.values["logp"] for each in bench.measured()}


def test_what_other_campaigns_measured_is_known_from_the_first_turn(seeds: Path, earlier: dict[str, float]) -> None:
    """The children of the first turn lie nearer to the window, and are no worse later."""
    without, with_past = Measuring(), Remembering(earlier)
    distances = []
    for bench, proposer in ((without, law(seeds)), (with_past, law(seeds, past=("earlier",)))):
        play(proposer, bench, 2, limit=6)
        children = [each for each in bench.measured() if each.text not in SEEDS]
        distances.append(np.mean([abs(each.values["logp"] - 3.0) for each in children]))
    assert len(earlier) > 150 and distances[1] < 0.75 * distances[0]


def test_a_past_that_misleads_is_left_aside(seeds: Path) -> None:
    """Values that have nothing to do with the molecules that they are stated for."""
    texts = ["C" * n + end for n in range(6, 16) for end in ("F", "Cl", "S", "C#N", "[N+](=O)[O-]", "C(F)(F)F")]
    values = np.random.default_rng(1).normal(1.5, 1.0, len(texts)).tolist()
    misled, without = Remembering(dict(zip(texts, values, strict=True))), Measuring()
    play(law(seeds, past=("earlier",)), misled, 9, limit=6)
    play(law(seeds), without, 9, limit=6)
    assert misled.hits() >= 0.6 * without.hits()


def test_only_what_no_campaign_has_measured_is_proposed_if_the_file_says_so(
    seeds: Path, earlier: dict[str, float]
) -> None:
    bench = Remembering(earlier)
    play(law(seeds, past=("earlier",), only_new=True), bench, 6, limit=6)
    children = {each.text for each in bench.proposals[len(SEEDS) :]}
    assert children and not children & set(bench.remembered)
