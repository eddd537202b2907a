"""Each baseline does what a fair one must: keeps to its budget, buys nothing twice, beats chance, takes a stream."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.scheduling import live  # noqa: F401  registers `one_step`
from sciagent.errors import UsageError
from sciagent_bench import schedulers
from sciagent_bench.replay_once import Replay, Truth, simulate
from sciagent_bench.schedulers import SCHEDULERS, Facts
from sciagent_bench.synthetic_ladders import family

N, BUDGET = 800, 0.15
CLEVER = ["thresholds", "halving", "best_rung", "greedy", "one_step"]


def run(name: str, truth: Truth, budget: float = BUDGET, stream: int = 0, seed: int = 0, sign: int = 1) -> Replay:
    threshold = sign * float((sign * truth.scores[truth.hit, -1]).min()) - sign * 1e-6
    facts = Facts(threshold, sign, None, seed, budget * truth.exhaustive, truth.scores.shape[1])
    found = simulate(truth, SCHEDULERS[name](facts), budget, stream)
    assert found.spent <= budget * truth.exhaustive * (1 + 1e-9)
    assert len(set(zip(found.of, found.rung, strict=True))) == len(found.of)
    return found


def recall(name: str, truth: Truth, budget: float = BUDGET, stream: int = 0, sign: int = 1) -> float:
    return sum(run(name, truth, budget, stream, sign=sign).hit) / int(truth.hit.sum())


@pytest.mark.parametrize("name", CLEVER)
def test_a_baseline_finds_three_times_what_chance_does(name: str) -> None:
    assert recall(name, family("informative", N, 1, 0.03)) > 3 * BUDGET


@pytest.mark.parametrize("name", CLEVER)
def test_a_stream_of_200_costs_it_little(name: str) -> None:
    truth = family("informative", N, 1, 0.03)
    found = run(name, truth, stream=200)
    assert sum(found.hit) / truth.hit.sum() > 2.5 * BUDGET
    # later arrivals are bought too, and every one of a purchase's costs was covered when it was made
    assert max(found.of) >= 600
    limit = BUDGET * truth.exhaustive
    newest = np.maximum.accumulate(np.array(found.of) // 200 + 1) * 200
    assert (np.cumsum(found.cost)[newest == 200] <= limit * 200 / N * (1 + 1e-9)).all()


@pytest.mark.parametrize("name", ["random", "exhaustive"])
@pytest.mark.parametrize("stream", [0, 200])
def test_chance_finds_no_more_than_its_share(name: str, stream: int) -> None:
    assert recall(name, family("informative", N, 1, 0.03), stream=stream) < 2 * BUDGET


@pytest.mark.parametrize("name", ["thresholds", "halving", "best_rung", "one_step"])
def test_hits_below_the_threshold_are_found_as_well(name: str) -> None:
    truth = family("informative", N, 1, 0.03)
    mirrored = Truth(-truth.scores, truth.costs, truth.hit)
    assert recall(name, mirrored, sign=-1) > 2.5 * BUDGET


@pytest.mark.parametrize("name", [*CLEVER, "random", "exhaustive"])
def test_rungs_that_fail_stop_nothing(name: str) -> None:
    assert run(name, family("failures", 400, 1, 0.03)).spent > 0.9 * BUDGET * 400 * 1000


@pytest.mark.parametrize("name", ["greedy", "one_step"])
def test_structure_alone_tells_where_hits_are(name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400)
    truth = Truth(x[:, None], np.full((400, 1), 10.0), x >= np.sort(x)[-20])
    facts = Facts(float(np.sort(x)[-20]) - 1e-6, 1, Near(x), 0, 0.15 * truth.exhaustive, 1)
    found = simulate(truth, SCHEDULERS[name](facts), 0.15)
    assert sum(found.hit) > 15


class Near:
    def __init__(self, x: np.ndarray) -> None:  # type: ignore[type-arg]
        self.x = x

    def between(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        similarity: np.ndarray = np.exp(-2 * (self.x[one][:, None] - self.x[other]) ** 2)  # type: ignore[type-arg]
        return similarity


def test_a_package_that_is_not_there_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedulers, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs scikit-learn; install it with: pip install 'sciagent\[bench\]'"):
        SCHEDULERS["greedy"](Facts(0.0, 1, None, 0, 1.0, 2))
