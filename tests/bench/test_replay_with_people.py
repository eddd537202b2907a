"""Replays in which people do the last rung: slots of a week, answers weeks later, and tasks that are withdrawn."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.scheduling.aims_and_payoff import Aims
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.priced import Priced
from sciagent_bench.lab.replay_with_people import WEEK_DAYS, InFlight, Laboratory, LabReplay, replay_lab
from sciagent_bench.replay_cases import Case
from sciagent_bench.replay_once import Truth
from sciagent_bench.rivals.campaign_rules_and_fitted_ones import Ordered
from sciagent_bench.synthetic_ladders import family


def case(n: int = 300) -> Case:
    return Case.of(family("informative", n, 3, 0.05))


def priced(lab: Laboratory, how: InFlight, seed: int = 0) -> LabReplay:
    made = case()
    k = made.truth.costs.shape[1]
    budget = float(made.truth.costs[:, :-1].sum() + made.truth.costs[:, -1].mean() * lab.weeks * lab.per_week)
    buyer = Priced(Aims.with_threshold(k, made.threshold, made.sign), None, seed, budget)
    return replay_lab(made.truth, buyer, lab, how, made.similarity, seed)


@pytest.mark.parametrize("latency", [0, 7, 28])
def test_no_seven_days_have_more_claims_than_slots_and_none_is_left_unused(latency: float) -> None:
    run = replay_lab(case().truth, Ordered(Exhaustive()), Laboratory(latency, 5, 20), InFlight(), seed=1)
    claimed = np.array(run.claimed)
    assert max(((claimed >= day) & (claimed < day + WEEK_DAYS)).sum() for day in range(20 * WEEK_DAYS)) == 5
    assert len(claimed) == 100 and len(set(run.of)) == 100
    waited = np.array(run.answered) - claimed
    assert (waited >= 0).all() and waited.mean() == pytest.approx(latency, abs=latency / 5)


def test_a_list_that_is_put_in_order_again_finds_more_hits() -> None:
    lab = Laboratory(14, 5, 10)
    frozen, renewed = priced(lab, InFlight(reprice=False)), priced(lab, InFlight())
    assert frozen.withdrawn == 0 < renewed.withdrawn
    assert renewed.hits_by(lab.weeks * WEEK_DAYS) >= frozen.hits_by(lab.weeks * WEEK_DAYS)


def test_what_is_out_counts_against_a_goal() -> None:
    lab = Laboratory(28, 8, 30, count=10)
    ignored, counted = (priced(lab, InFlight(counts_out=counts)).hits - 10 for counts in (False, True))
    assert 0 <= counted < ignored


def test_at_most_a_third_of_the_list_is_alike() -> None:
    class Twins:
        """Candidates of even rows are all alike."""

        def between(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return np.outer(rows % 2 == 0, columns % 2 == 0).astype(float)

    truth = Truth(np.zeros((40, 1)), np.ones((40, 1)), np.zeros(40, dtype=bool))
    run = replay_lab(truth, Ordered(Exhaustive()), Laboratory(99, 9, 1), InFlight(alike=0.6), Twins(), seed=0)
    assert sum(of % 2 == 0 for of in run.of) <= 7  # a third of the 18 that are listed, and the first
