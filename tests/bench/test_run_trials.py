"""Trials: what a scheduler is told, what comes of its runs, and that processes change nothing."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from sciagent.errors import UnknownNameError
from sciagent.scheduling.aims_and_payoff import Aim, Aims
from sciagent.scheduling.candidate_pool import Buyer, CandidatePool, Purchase
from sciagent_bench import run_trials
from sciagent_bench.replay_cases import Case, OfFamily
from sciagent_bench.replay_once import Truth
from sciagent_bench.run_trials import Trial, TrialOutcome, run, run_all, trials
from sciagent_bench.schedulers import SCHEDULERS, Facts


class Eager:
    """Buys the terminal rung in order of arrival, ten at a time."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        last = pool.scores.shape[1] - 1
        return [Purchase(int(i), last, -float(i)) for i in np.flatnonzero(~pool.out)[:10]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Facts]:
    """All that the scheduler `eager` was told."""
    found: list[Facts] = []

    def eager(facts: Facts) -> Buyer:
        found.append(facts)
        return Eager()

    monkeypatch.setitem(SCHEDULERS, "eager", eager)
    return found


def source(seed: int) -> Case:
    """100 candidates; hits are the ten that arrive at places 0, 10, 20, …"""
    value = np.where(np.arange(100) % 10 == 0, 5.0, 1.0)
    return Case.of(Truth(np.column_stack([value, value]), np.tile([1.0, 10.0], (100, 1)), value > 2))


def test_a_scheduler_is_told_no_answers(told: list[Facts]) -> None:
    run(source, Trial("eager", 7, 0.5))
    [facts] = told
    assert dataclasses.asdict(facts) == {
        "threshold": 3.0,
        "sign": 1,
        "similarity": None,
        "seed": 7,
        "budget": 500.0,
        "rungs": 2,
        "aims": dataclasses.asdict(Aims((Aim((0, 1), 3.0, math.inf),))),
    }


def test_recall_is_that_of_a_run_with_the_budget(told: list[Facts]) -> None:
    assert run(source, Trial("eager", 0, 0.5)) == [0.5]
    assert run(source, Trial("eager", 0, 0.05)) == [0.1]


@pytest.mark.parametrize("stream", [0, 20])
def test_costs_of_the_marks_come_from_one_run_with_the_whole_budget(told: list[Facts], stream: int) -> None:
    assert run(source, Trial("eager", 0, None, stream)) == pytest.approx([0.41, 0.71, 0.81, 0.91])
    assert told[-1].budget == 1000


def test_every_scheduler_meets_every_seed_at_every_budget_and_once_more() -> None:
    assert trials(["priced"], [0.1, 0.2], 2, 5) == [
        Trial("priced", seed, budget, 5) for seed in (0, 1) for budget in (0.1, 0.2, None)
    ]
    with pytest.raises(UnknownNameError, match='unknown scheduler "pricey"; did you mean "priced"'):
        trials(["pricey"], [0.1], 1)


def test_an_outcome_is_summed_up_by_budget_and_mark() -> None:
    outcome = TrialOutcome()
    for seed, value in ((0, 0.2), (1, 0.4)):
        outcome.add(Trial("priced", seed, 0.05), [value])
        outcome.add(Trial("priced", seed, None), [0.1, 0.2, 0.3, None if seed else 0.4])
    found = outcome.summary()
    assert found["recall"]["0.05"] == pytest.approx((0.3, 0.3 - 1.2706, 0.3 + 1.2706), abs=1e-3)
    assert list(found["cost_to"]) == ["0.5", "0.8", "0.9", "0.95"]
    assert found["cost_to"]["0.5"] == pytest.approx((0.1, 0.1, 0.1))
    assert found["cost_to"]["0.95"] is None


def test_processes_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    where = OfFamily("informative", 300, 0.02)
    wanted = [Trial("priced", seed, 0.05) for seed in (0, 1)]
    alone, together = (sorted(run_all(where, wanted, workers), key=lambda done: done[0].seed) for workers in (1, 2))
    assert alone == together
    assert not hasattr(run_trials, "_source"), "only the workers hold it"
