"""The process over structures against the formula of a conditional normal distribution, written out with NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm

from sciagent.chemistry.fingerprints_and_families import structure_of
from sciagent.scheduling.law import structure_process
from sciagent.scheduling.law.structure_process import (
    Answers,
    ComparedStructures,
    FreshPrior,
    MemoryPrior,
    StructureMemory,
    StructureProcess,
    Transform,
    fitted,
)

ALKYLS = ("C", "CC", "CCC", "CCCC", "CC(C)C", "C1CCCC1")
ENDS = ("O", "N", "F", "C#N", "C(=O)O", "c1ccccc1")
TEXTS = [alkyl + end for alkyl in ALKYLS for end in ENDS]
DRAWN = np.random.default_rng(1).permutation(36)
KNOWN = np.sort(DRAWN[:18])
OTHERS = np.sort(DRAWN[18:])
VALUES = np.array([0.5 + 0.3 * (n // 6) + 0.8 * (n % 6) + 0.05 * (n % 5) for n in range(36)])


@pytest.fixture(scope="module", name="compared")
def make_compared() -> ComparedStructures:
    compared = ComparedStructures()
    compared.add([structure_of(text) for text in TEXTS[:20]])
    compared.add([structure_of(text) for text in TEXTS[20:]])
    return compared


def own(compared: ComparedStructures, transform: Transform) -> StructureProcess:
    answers = Answers(KNOWN, VALUES[KNOWN])
    return StructureProcess(FreshPrior(compared, answers, transform), answers)


def joint(process: StructureProcess, compared: ComparedStructures, places: np.ndarray) -> np.ndarray:
    """The covariance of answers on structures, in the standardised unit."""
    assert isinstance(process.prior, FreshPrior)
    a, b, noise = np.exp(2 * process.prior.log_hyper)
    similarity, products = compared.compare(places, places)
    length = compared.lengths(KNOWN).mean()
    return a * similarity + b * products / length + (noise + structure_process.JITTER) * np.eye(len(places))


def test_it_foretells_what_the_conditional_normal_distribution_says(compared: ComparedStructures) -> None:
    process = own(compared, Transform.LOG)
    y = np.log(VALUES[KNOWN])
    mean, scale = y.mean(), y.std() + structure_process.SMALLEST_SPREAD * np.abs(y).mean()
    covariance = joint(process, compared, np.concatenate([KNOWN, OTHERS]))
    n = len(KNOWN)
    gain = np.linalg.solve(covariance[:n, :n], covariance[:n, n:])
    expected = gain.T @ ((y - mean) / scale) * scale + mean
    spread = np.sqrt(np.diag(covariance[n:, n:] - covariance[n:, :n] @ gain)) * scale
    found, sd = process.foretell(OTHERS)
    assert found == pytest.approx(expected, abs=1e-6) and sd == pytest.approx(spread, rel=1e-6)
    chance = process.chance(OTHERS, 2.0, 3.0)
    limits = norm.cdf(np.log(3.0), expected, spread) - norm.cdf(np.log(2.0), expected, spread)
    assert chance == pytest.approx(limits, abs=1e-6)
    assert process.chance(OTHERS, -np.inf, np.inf) == pytest.approx(np.ones(len(OTHERS)))


def test_an_answer_is_left_out_as_if_it_had_not_been_given(compared: ComparedStructures) -> None:
    process = own(compared, Transform.NONE)
    mean, sd = process.left_out()
    y = VALUES[KNOWN]
    centre, scale = y.mean(), y.std() + structure_process.SMALLEST_SPREAD * np.abs(y).mean()
    covariance = joint(process, compared, KNOWN)
    for place in (0, 7, 17):
        rest = np.delete(np.arange(len(KNOWN)), place)
        gain = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, place])
        assert mean[place] == pytest.approx(gain @ ((y[rest] - centre) / scale) * scale + centre, abs=1e-6)
        spread = np.sqrt(covariance[place, place] - gain @ covariance[rest, place]) * scale
        assert sd[place] == pytest.approx(spread, rel=1e-6)


def test_the_gradient_is_that_of_the_density(compared: ComparedStructures) -> None:
    similarity, products = compared.compare(KNOWN, KNOWN)
    target = (VALUES[KNOWN] - VALUES[KNOWN].mean()) / VALUES[KNOWN].std()
    loss = structure_process.density(similarity, products / products.diagonal().mean(), target)
    at = structure_process.CENTRES + np.array([0.2, -0.3, 0.1])
    _, gradient = loss(at)
    for place, step in enumerate(1e-5 * np.eye(3)):
        slope = (loss(at + step)[0] - loss(at - step)[0]) / 2e-5
        assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "expected"), [(np.exp, Transform.LOG), (np.square, Transform.SQRT), (lambda x: x - 1.5, Transform.NONE)]
)
def test_the_transform_is_the_one_under_which_errors_are_alike(
    compared: ComparedStructures, make: Callable[[np.ndarray], np.ndarray], expected: Transform
) -> None:
    values = make(VALUES[KNOWN] + np.random.default_rng(3).normal(0, 0.15, len(KNOWN)))
    assert fitted(compared, Answers(KNOWN, values)).prior.transform is expected


def test_what_is_additive_in_groups_is_learnt_from_half_of_the_molecules(compared: ComparedStructures) -> None:
    process = fitted(compared, Answers(KNOWN, VALUES[KNOWN]))
    mean, _ = process.foretell(OTHERS)
    errors = np.abs(process.prior.transform.inverse(mean) - VALUES[OTHERS])
    assert np.median(errors) < 0.4 * np.median(np.abs(VALUES[OTHERS] - VALUES[KNOWN].mean()))


def test_a_structure_that_cannot_be_read_is_foretold_as_the_prior(compared: ComparedStructures) -> None:
    with_none = ComparedStructures()
    with_none.add([structure_of(text) for text in TEXTS[:10]])
    with_none.add([None])
    rows = np.arange(10)
    answers = Answers(rows, VALUES[rows])
    process = StructureProcess(FreshPrior(with_none, answers, Transform.NONE), answers)
    [mean], [sd] = process.foretell(np.array([10]))
    assert mean == pytest.approx(VALUES[rows].mean()) and sd > 0


@pytest.mark.parametrize("transform", list(Transform))
def test_a_transform_and_its_inverse_undo_each_other(transform: Transform) -> None:
    values = np.array([0.1, 1.0, 7.5])
    assert transform.inverse(transform(values)) == pytest.approx(values)
    step = 1e-6
    slopes = (transform(values + step) - transform(values - step)) / (2 * step)
    assert transform.log_slope(values) == pytest.approx(np.log(slopes).sum(), abs=1e-6)
    assert transform(np.array([0.0]))[0] in (0.0, -np.inf)


def test_a_memory_and_own_answers_are_what_all_answers_together_say(compared: ComparedStructures) -> None:
    past, recent = KNOWN[:12], KNOWN[12:]
    before = ComparedStructures()
    before.add([structure_of(TEXTS[place]) for place in past])
    memory = StructureMemory(before, VALUES[past], Transform.SQRT)
    process = StructureProcess(MemoryPrior(memory, compared), Answers(recent, VALUES[recent]))
    fresh = memory.fresh
    a, b, noise = np.exp(2 * fresh.log_hyper)
    places = np.concatenate([past, recent, OTHERS])
    similarity, products = compared.compare(places, places)
    joined = a * similarity + b * products / fresh.length + (noise + structure_process.JITTER) * np.eye(len(places))
    n = len(KNOWN)
    gain = np.linalg.solve(joined[:n, :n], joined[:n, n:])
    target = (np.sqrt(VALUES[places[:n]]) - fresh.centre) / fresh.scale
    mean, sd = process.foretell(OTHERS)
    assert mean == pytest.approx(gain.T @ target * fresh.scale + fresh.centre, abs=1e-5)
    spread = np.sqrt(np.diag(joined[n:, n:] - joined[n:, :n] @ gain)) * fresh.scale
    assert sd == pytest.approx(spread, rel=1e-5)
    alone = StructureProcess(MemoryPrior(memory, compared), Answers(np.array([], dtype=int), np.array([])))
    gain = np.linalg.solve(joined[:12, :12], joined[:12, n:])
    assert alone.foretell(OTHERS)[0] == pytest.approx(gain.T @ target[:12] * fresh.scale + fresh.centre, abs=1e-5)
