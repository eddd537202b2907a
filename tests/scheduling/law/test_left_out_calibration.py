"""Left-out groups against the conditional normal distribution, and widths that are learnt from their errors."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.chemistry.fingerprints_and_families import structure_of
from sciagent.scheduling.law.left_out_calibration import (
    BIN_EDGES,
    NOT_CALIBRATED,
    CalibratedProcess,
    ForetoldAnswers,
    calibrated,
    calibration_from,
    chance_bins,
    left_out,
)
from sciagent.scheduling.law.prediction_interval_width import NORMAL
from sciagent.scheduling.law.structure_process import (
    Answers,
    ComparedStructures,
    MemoryPrior,
    StructureMemory,
    StructureProcess,
    Transform,
)

TEXTS = [alkyl + end for alkyl in ("C", "CC", "CCC", "CC(C)C", "C1CCCC1") for end in ("O", "N", "F", "C#N", "C(=O)O")]
VALUES = np.array([0.5 + 0.3 * (n // 5) + 0.8 * (n % 5) + 0.05 * (n % 4) for n in range(25)])
GROUPS = np.arange(25) % 3


@pytest.fixture(scope="module", name="memory")
def make_memory() -> StructureMemory:
    compared = ComparedStructures()
    compared.add([structure_of(text) for text in TEXTS])
    return StructureMemory(compared, VALUES, Transform.LOG, np.log([0.8, 1.0, 0.3]))


def test_a_left_out_group_is_foretold_as_the_conditional_normal_distribution_says(memory: StructureMemory) -> None:
    found = left_out(memory, VALUES, GROUPS)
    covariance = memory.factor @ memory.factor.T
    target = (np.log(VALUES) - memory.fresh.centre) / memory.fresh.scale
    for group in range(3):
        here, others = group == GROUPS, group != GROUPS
        weights = np.linalg.solve(covariance[np.ix_(others, others)], covariance[np.ix_(others, here)])
        mean = weights.T @ target[others]
        variance = np.diag(covariance[np.ix_(here, here)] - covariance[np.ix_(here, others)] @ weights)
        assert found.errors[here] == pytest.approx(np.abs(target[here] - mean) / np.sqrt(variance), rel=1e-6)
        assert found.foretold[here] == pytest.approx(np.exp(mean * memory.fresh.scale + memory.fresh.centre), rel=1e-6)
    similarity, _ = memory.compared.compare(np.arange(25), np.arange(25))
    assert found.nearest[0] == pytest.approx(similarity[0, GROUPS[0] != GROUPS].max())


def drawn(factors: tuple[float, float], n: int = 2000) -> ForetoldAnswers:
    """Answers of ten groups whose errors are normal, wider by one factor far from what is known than near to it."""
    rng = np.random.default_rng(3)
    nearest = rng.uniform(0.5, 1.0, n)
    errors = np.abs(rng.normal(size=n)) * np.where(nearest < 0.7, *factors)
    return ForetoldAnswers(np.zeros(n), errors, errors, nearest, np.arange(n) % 10)


def test_the_factor_of_a_similarity_is_the_one_that_its_errors_ask_for() -> None:
    found = calibrated(drawn((2.0, 0.6)))
    near, far = found.factors(np.array([0.85, 0.55]))
    # ten groups ask for the quantile of .945, which a normal distribution has at 1.92 standard deviations
    assert near == pytest.approx(0.6 * 1.92 / NORMAL, rel=0.12) and far == pytest.approx(2.0 * 1.92 / NORMAL, rel=0.12)
    assert found.covered == pytest.approx(0.945, abs=0.02)
    assert found.groups == 10 and found.n == 2000
    by_bin = [each.factor for each in found.bins]
    assert by_bin == sorted(by_bin, reverse=True), "what is less similar is never foretold more closely"
    assert found.bin_of(0.55) == found.bins[1] and found.bins[0].n == 0 and found.bins[0].covered is None
    assert sum(each.n for each in found.bins) == 2000 and found.bins[-1].high == BIN_EDGES[-1]


def test_heavy_tails_are_found_and_chances_have_them() -> None:
    rng = np.random.default_rng(5)
    errors = np.abs(rng.standard_t(3, size=4000))
    heavy = calibrated(ForetoldAnswers(errors, errors, errors, np.full(4000, 0.75), np.arange(4000) % 40))
    normal = calibrated(drawn((1.0, 1.0), n=4000))
    assert heavy.freedom in (2.5, 3.0, 4.0) and (normal.freedom is None or normal.freedom >= 10)
    ends = np.array([NORMAL])
    for each in (heavy, normal):
        assert each.chance(-ends, ends)[0] == pytest.approx(0.9), "the factors are those of the 90 % interval"
        assert each.chance(np.array([-np.inf]), np.array([np.inf]))[0] == pytest.approx(1.0)
        one = np.array([each.one_sigma])
        assert each.chance(-one, one)[0] == pytest.approx(0.6827, abs=1e-4)
    assert heavy.one_sigma < normal.one_sigma


def test_own_errors_tell_the_factor_of_a_campaign() -> None:
    rng = np.random.default_rng(7)
    law = calibrated(drawn((1.0, 1.0)))
    wide = law.own_factor(np.abs(rng.normal(size=400)))
    assert law.own_factor(0.5 * np.abs(rng.normal(size=400))) == pytest.approx(wide / 2, rel=0.1)
    assert law.own_factor(np.zeros(0)) == 1.0
    assert 0.6 < law.own_factor(np.full(2, 0.1)) < 1.0, "two small errors move it little"
    assert calibration_from(law.as_json()) == law
    with pytest.raises(ValueError, match="groups"):
        calibration_from({"n": 3})


def test_own_answers_are_foretold_in_their_order_by_what_came_before(memory: StructureMemory) -> None:
    compared = ComparedStructures()
    compared.add([structure_of(smiles) for smiles in ("CCCCCCO", "CCCCCCCO", "CCCCCCCCO")])
    values = np.array([3.0, 4.0, 5.0])
    whole = StructureProcess(MemoryPrior(memory, compared), Answers(np.arange(3), values))
    for n in range(3):
        before = StructureProcess(MemoryPrior(memory, compared), Answers(np.arange(n), values[:n]))
        mean, sd = before.foretell(np.array([n]))
        error = abs(before.prior.transform(values[n : n + 1]) - mean) / sd
        assert whole.errors_in_order()[n] == pytest.approx(error[0], rel=1e-5)
    both = CalibratedProcess(memory, NOT_CALIBRATED, compared, Answers(np.arange(2), values[:2]))
    assert both.similarities(np.array([2])).shape == (25 + 2, 1)
    mean, sd = both.foretell(np.array([2]))
    _, plain = both.process.foretell(np.array([2]))
    assert sd == pytest.approx(plain * both.own_factor)
    assert both.chance(np.array([2]), -np.inf, np.inf)[0] == pytest.approx(1.0)


def test_intervals_of_a_group_are_counted_with_the_factor_of_the_others() -> None:
    errors = np.concatenate([np.full(200, 0.1), np.full(200, 5.0)])
    groups = np.repeat([0, 1], 200)
    found = calibrated(ForetoldAnswers(np.zeros(400), errors, errors, np.full(400, 0.75), groups))
    assert found.covered == 0.5, "the factors that small errors teach hold none of the large ones"


def test_one_group_calibrates_nothing() -> None:
    errors = np.ones(50)
    found = calibrated(ForetoldAnswers(errors, errors, errors, errors, np.zeros(50, dtype=np.int64)))
    assert found == NOT_CALIBRATED
    assert found.factors(np.array([0.2, 0.9])) == pytest.approx([1, 1]) and found.bin_of(0.9) is None


def test_few_answers_hardly_move_the_factor() -> None:
    errors = np.full(4, 4 * NORMAL)
    found = calibrated(ForetoldAnswers(errors, errors, errors, np.full(4, 0.95), np.arange(4) % 2))
    near, far = found.factors(np.array([0.95, 0.6]))
    # the factor of four answers, shrunk to 1 as if there were thirty more, and drawn to the five bins without any
    assert near == pytest.approx(((4 * 4 + 30) + 5 * 30) / (34 + 5 * 30), rel=1e-3)
    assert far == pytest.approx(2 * near, rel=1e-3), "fewer than twenty answers say nothing of what is farther"


def test_bins_of_chances_hold_at_least_so_many() -> None:
    said = np.linspace(0, 1, 120)
    bins = chance_bins(said, said > 0.5, 50)
    assert [each.n for each in bins] == [60, 60] and [each.real for each in bins] == [0, 1]
    assert bins[0].high <= bins[1].low and bins[0].said == pytest.approx(said[:60].mean())
    assert [each.n for each in chance_bins(said[:7], said[:7] > 1, 50)] == [7] and not chance_bins(
        said[:0], said[:0] > 1, 5
    )
