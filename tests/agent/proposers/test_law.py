"""The proposer `law` on a bench that measures logP at once: seeds first, then what the law takes for hits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent.agent.proposers.evolve import Evolve
from sciagent.agent.proposers.law import MOST, LawSearch, limits_of
from sciagent.chemistry.editing.mutate_and_crossover import EditLimits
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.objectives import Direction, Objective, Window
from sciagent.domain.proposer_interfaces import MeasuredCandidate
from tests.agent.proposers.test_evolve import SEEDS, Bench, play
from tests.support.subjects import MOLECULES
from tests.support.worths import worth

WANTED = Objective("logp", Direction.WINDOW, Window(2.9, 3.1))
LIMITS = EditLimits(elements=("H", "C", "N", "O"), max_heavy_atoms=14)


class Measuring(Bench):
    """A bench whose candidates have a logP; its worth falls with the distance from the window."""

    def measured(self) -> list[MeasuredCandidate]:
        from rdkit.Chem import Crippen

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


def law(seeds: Path) -> LawSearch:
    return LawSearch(MOLECULES, seeds, [WANTED], pool=64, limits=LIMITS)


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
    from sciagent.domain.proposer_interfaces import Turn

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


def test_an_objective_without_limits_wants_what_is_better_than_the_best() -> None:
    values = np.arange(20.0)
    assert limits_of(Objective("logp", Direction.MAXIMISE), values) == (12.0, np.inf)
    assert limits_of(Objective("logp", Direction.MINIMISE), values) == (-np.inf, 7.0)
    assert limits_of(Objective("logp", Direction.LIMIT, Window(None, 2.0)), values) == (-np.inf, 2.0)


def test_a_large_campaign_is_fitted_to_a_bounded_number_of_answers() -> None:
    from sciagent.agent.proposers.law import _best_and_latest

    known = [MeasuredCandidate(f"C{n}", worth(0.5), n % 1777, {"logp": 1.0}, str(n)) for n in range(3 * MOST)]
    chosen = _best_and_latest(known)
    assert len(chosen) == MOST and chosen[: MOST // 2] == known[: MOST // 2]
    rest = known[MOST // 2 :]
    assert min(each.seq for each in chosen[MOST // 2 :]) >= sorted(each.seq for each in rest)[-MOST // 2]
