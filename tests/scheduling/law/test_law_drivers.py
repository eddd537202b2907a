"""The drivers of a law: weights of its answers and of atom environments, against sums that are written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sciagent.chemistry.fingerprints_and_families import structure_of
from sciagent.scheduling.law.law_drivers import answer_weights, at_the_middle, environment_weights, with_and_without
from sciagent.scheduling.law.structure_process import LINEAR, ComparedStructures, StructureMemory, Transform

TEXTS = [f"{'C' * n}{end}" for n in range(2, 8) for end in ("O", "N", "C#N")]
VALUES = np.array([0.1 * n + 3.0 * (end == "O") for n in range(2, 8) for end in ("O", "N", "C#N")])


@pytest.fixture(scope="module", name="memory")
def make_memory() -> StructureMemory:
    compared = ComparedStructures()
    compared.add([structure_of(text) for text in TEXTS])
    return StructureMemory(compared, VALUES, Transform.NONE, np.log([0.5, 1.0, 0.1]))


def test_the_weights_solve_the_covariance_and_give_the_prediction(memory: StructureMemory) -> None:
    covariance = memory.factor @ memory.factor.T
    y = (VALUES - memory.fresh.centre) / memory.fresh.scale
    weights = answer_weights(memory)
    assert weights == pytest.approx(np.linalg.solve(covariance, y), abs=1e-8)


def test_a_prediction_without_an_answer_is_that_of_the_others(memory: StructureMemory) -> None:
    covariance = memory.factor @ memory.factor.T
    without_noise = covariance - memory.fresh.noise * np.eye(len(VALUES))
    y = (VALUES - memory.fresh.centre) / memory.fresh.scale
    with_it, without_it = with_and_without(memory)
    for place in (0, 5, 17):
        rest = np.delete(np.arange(len(VALUES)), place)
        of_all = without_noise[place] @ np.linalg.solve(covariance, y)
        of_others = covariance[place, rest] @ np.linalg.solve(covariance[np.ix_(rest, rest)], y[rest])
        expected = np.array([of_all, of_others]) * memory.fresh.scale + memory.fresh.centre
        assert [with_it[place], without_it[place]] == pytest.approx(expected, abs=1e-6)


def test_the_weight_of_an_environment_is_its_column_of_the_linear_term(memory: StructureMemory) -> None:
    structures = [structure_of(text) for text in TEXTS]
    phi = np.zeros((len(TEXTS), LINEAR))
    for row, structure in enumerate(structures):
        assert structure is not None
        for feature, count in structure.counts.items():
            phi[row, feature % LINEAR] += count
    columns = memory.fresh.scale * np.sqrt(phi).T @ answer_weights(memory) / memory.fresh.length
    found = environment_weights(memory, structures)
    assert [each.weight for each in found] == pytest.approx(
        [columns[each.feature % LINEAR] for each in found], abs=1e-6
    )
    assert all(each.n >= 3 and abs(first.weight) >= abs(each.weight) for first, each in itertools.pairwise(found))
    hydroxyl = {*structure_of("CCCCO").counts} - {*structure_of("CCCCN").counts} - {*structure_of("CCCCC#N").counts}  # type: ignore[union-attr]
    best = max(found, key=lambda each: each.weight)
    assert best.feature in hydroxyl and TEXTS[best.example].endswith("O"), "alcohols have 3 more than the others"
    middle, moved = at_the_middle(memory, best.weight)
    assert (middle, moved) == pytest.approx((VALUES.mean(), VALUES.mean() + best.weight))
    assert environment_weights(memory, [None] * len(TEXTS)) == []
