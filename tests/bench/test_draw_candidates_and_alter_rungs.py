"""Cases with fewer candidates, a worthless rung, or one rung less."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.errors import UsageError
from sciagent_bench.draw_candidates_and_alter_rungs import Changed, drawn, with_noise, without
from sciagent_bench.replay_cases import Case
from sciagent_bench.replay_once import Truth


def case(n: int = 200) -> Case:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(n)
    scores = np.column_stack([truth + rng.standard_normal(n), truth + 0.1 * rng.standard_normal(n), truth])
    costs = np.tile([1.0, 10.0, 100.0], (n, 1))
    return Case.of(Truth(scores, costs, truth >= np.quantile(truth, 0.9)), names=("cheap", "fair", "truth"))


def test_a_draw_has_its_own_hits() -> None:
    small = drawn(case(), 40, 0.1, np.random.default_rng(1))
    truth = small.truth.scores[:, -1]
    assert len(truth) == 40 and set(truth) <= set(case().truth.scores[:, -1])
    assert small.truth.hit.sum() == 4 and truth[small.truth.hit].min() > small.threshold > truth[~small.truth.hit].max()


def test_of_answers_that_are_yes_or_no_never_all_are_hits() -> None:
    whole = case()
    yes = (whole.truth.scores[:, -1:] > 0.5).astype(float)
    binary = Case.of(Truth(np.hstack([whole.truth.scores[:, :-1], yes]), whole.truth.costs, yes[:, 0] > 0))
    small = drawn(binary, 60, 0.9, np.random.default_rng(0))
    assert 0 < small.truth.hit.sum() < 60 and small.threshold == 0.5


@pytest.mark.parametrize(("cost", "place"), [(0.005, 0), (0.05, 1), (0.5, 2)])
def test_a_worthless_rung_stands_at_its_cost_and_tells_nothing(cost: float, place: int) -> None:
    noisy = with_noise(case(2000), cost, np.random.default_rng(0))
    assert noisy.names.index("noise") == place and noisy.names[-1] == "truth"
    assert np.allclose(noisy.truth.costs[:, place], 100 * cost)
    noise, truth = noisy.truth.scores[:, place], noisy.truth.scores[:, -1]
    assert sorted(noise) == sorted(truth) and abs(np.corrcoef(noise, truth)[0, 1]) < 0.06


def test_a_rung_is_left_out_by_name() -> None:
    left = without(case(), "fair")
    assert left.names == ("cheap", "truth") and left.truth.costs.shape == (200, 2)
    with pytest.raises(UsageError, match='no rung "truth" below the terminal one; there are: cheap, fair'):
        without(case(), "truth")


def test_a_seed_gives_the_same_changes_again_and_another_seed_others() -> None:
    source = Changed(lambda seed: case(), draw=50, top=0.1, noise=0.05, dropped=("cheap",))
    first, again, other = source(0), source(0), source(1)
    assert first.names == ("noise", "fair", "truth")
    assert np.array_equal(first.truth.scores, again.truth.scores)
    assert not np.array_equal(first.truth.scores, other.truth.scores)
