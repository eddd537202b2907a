"""The priced ladder on small synthetic ladders."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.aims_and_payoff import Aims
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.rules.priced import BATCH_SHARE_BELOW_TERMINAL, EARLY_LESSON_SHARE, LATER_LESSON_SHARE, Priced
from sciagent_bench.replay_cases import Case
from sciagent_bench.replay_once import Replay, simulate
from sciagent_bench.schedulers import SCHEDULERS, Facts
from sciagent_bench.synthetic_ladders import family

N, BUDGET = 3000, 0.05


@cache
def run_of(name: str, family_name: str, seed: int, stream: int = 0) -> tuple[Replay, float]:
    """What a scheduler bought, and the share of hits that it found."""
    case = Case.of(family(family_name, N, seed))
    facts = Facts(case.threshold, case.sign, case.similarity, seed, BUDGET * case.truth.exhaustive, 4)
    run = simulate(case.truth, SCHEDULERS[name](facts), BUDGET, stream)
    return run, float(np.sum(run.hit) / case.truth.hit.sum())


@pytest.fixture(scope="module")
def informative() -> Replay:
    return run_of("priced", "informative", 0)[0]


def test_it_spends_its_budget_and_no_more(informative: Replay) -> None:
    assert 0.98 < informative.spent / (BUDGET * N * 1000) <= 1


def test_nothing_is_bought_twice_and_rungs_are_climbed_in_order(informative: Replay) -> None:
    assert len(set(zip(informative.of, informative.rung, strict=True))) == len(informative.of)
    climbed: dict[int, int] = {}
    for one, rung in zip(informative.of, informative.rung, strict=True):
        assert rung > climbed.get(one, -1)
        climbed[one] = rung


def test_what_it_foretells_comes_true(informative: Replay) -> None:
    """The index of a terminal verification is the probability of a hit per cost: the sum of them is the number of hits
    that they brought."""
    asked = np.isfinite(informative.index) & (np.array(informative.rung) == 3)
    foretold = np.array(informative.index)[asked] * 1000
    found = np.array(informative.hit)[asked].sum()
    assert abs(found - foretold.sum()) < 3 * np.sqrt((foretold * (1 - foretold)).sum())


def test_a_ladder_that_informs_is_climbed_and_a_worthless_rung_is_not() -> None:
    counts = {}
    for name in ("informative", "worthless-middle"):
        counts[name] = np.bincount(run_of("priced", name, 1)[0].rung, minlength=4)
    assert counts["worthless-middle"][1] < 0.5 * counts["informative"][1]
    assert counts["worthless-middle"][2] > counts["worthless-middle"][3], "the rung above it is used"


@pytest.mark.parametrize(("name", "least"), [("informative", 0.55), ("worthless-middle", 0.4)])
def test_it_finds_more_than_halving_where_a_rung_is_worthless_and_no_less_elsewhere(name: str, least: float) -> None:
    priced = np.mean([run_of("priced", name, seed)[1] for seed in range(2)])
    halving = np.mean([run_of("halving", name, seed)[1] for seed in range(2)])
    assert priced > least
    assert priced > halving + (0.1 if name == "worthless-middle" else -0.05)


def test_lessons_cost_a_small_share(informative: Replay) -> None:
    """Rungs run on a candidate in the same moment as its terminal verification."""
    pairs = zip(informative.of, informative.of[1:], informative.index, informative.index[1:], strict=False)
    same = [i for i, (a, b, x, y) in enumerate(pairs) if a == b and x == y and np.isfinite(x)]
    assert 0 < sum(informative.cost[i] for i in same) <= 1.05 * LATER_LESSON_SHARE * informative.spent


def test_a_small_campaign_begins_with_two_ladders_and_small_batches() -> None:
    """Of 150 candidates, 8 of them hits, each answer of a large warm-up would be dear."""
    case = Case.of(family("informative", 150, 0, 0.05))
    facts = Facts(case.threshold, case.sign, case.similarity, 0, case.truth.exhaustive, 4)
    verified: list[int] = []

    class Watched:
        buyer = SCHEDULERS["priced"](facts)

        def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
            found = list(self.buyer.choose(pool, left))
            if any(one.rung == 3 for one in found):
                verified.append(sum(one.rung == 3 for one in found))
            return found

    simulate(case.truth, Watched(), 0.3)
    assert verified[0] == 2 and verified[1] <= 2 and max(verified) <= 8
    assert all(size <= max(2, sum(verified[:i]) // 2) for i, size in enumerate(verified) if i)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_small_campaign_begins_with_the_most_promising_two_where_a_rung_measures_what_is_wanted(sign: int) -> None:
    scores = np.column_stack([sign * np.arange(100.0), np.full(100, np.nan)])
    scores[-1, 0] = np.nan
    closed = np.column_stack([np.ones(100, dtype=bool), np.zeros(100, dtype=bool)])
    pool = CandidatePool(scores, closed, np.tile([0.001, 1.0], (100, 1)))
    rule = Priced(Aims.with_threshold(2, 0.0, sign, alike=((0, 1),)), None, 0, 100.0, frozenset({PaidIndex(0)}))
    assert [(one.row, one.rung) for one in rule.choose(pool, 100.0)] == [(98, 1), (97, 1)]


@cache
def taught(n: int) -> tuple[Priced, list[Purchase]]:
    """A law that has 40 answers of an earlier campaign, and its first batch for the others of n candidates."""
    case = Case.of(family("informative", n, 0, 0.05))
    scores, costs = case.truth.scores.copy(), case.truth.costs
    scores[40:, -1] = np.nan
    closed = ~np.isnan(scores)
    closed[:40] = False
    pool = CandidatePool(scores, closed, costs)
    pool.out[:40] = True
    rule = Priced(Aims.with_threshold(4, case.threshold, 1), None, 0, case.truth.exhaustive, earlier=40)
    return rule, rule.choose(pool, case.truth.exhaustive)


def test_a_small_campaign_after_an_earlier_one_has_no_warm_up_and_begins_with_a_small_batch() -> None:
    rule, batch = taught(150)
    assert rule.laws
    assert 1 <= len(batch) <= 2 and all(np.isfinite(one.index) and one.row >= 40 for one in batch)


def test_a_larger_one_warms_up_but_for_two_candidates() -> None:
    """The answers of the earlier campaign may all lie at the other end."""
    rule, batch = taught(1000)
    assert not rule.laws
    assert len(batch) == math.ceil(0.005 * (1000 - 40)) - 2 and all(one.row >= 40 for one in batch)


def test_a_batch_spends_little_on_rungs_below_the_terminal_one() -> None:
    """Nothing is known of a rung yet when its first answers are bought, so that many at once would be a bet."""
    case = Case.of(family("informative", 150, 0, 0.05))
    rule = SCHEDULERS["priced"](Facts(case.threshold, case.sign, case.similarity, 0, case.truth.exhaustive, 4))
    assert isinstance(rule, Priced)
    shares: list[float] = []

    class Watched:
        def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
            found = rule.choose(pool, left)
            below = [pool.costs[p.row, p.rung] for p in found if p.rung < 3]
            if rule.laws and len(below) > 1:  # a single purchase may cost more
                shares.append(sum(below) / pool.spent)
            return found

    simulate(case.truth, Watched(), 0.3)
    assert 0 < max(shares) <= BATCH_SHARE_BELOW_TERMINAL + EARLY_LESSON_SHARE


def test_without_an_answer_there_is_no_law_and_nothing_more_is_asked() -> None:
    case = Case.of(family("informative", 200, 0))
    silent = case.truth.scores.copy()
    silent[:, -1] = np.nan
    truth = type(case.truth)(silent, case.truth.costs, np.zeros(200, dtype=bool))
    run = simulate(
        truth, Priced(Aims.with_threshold(truth.scores.shape[1], case.threshold, 1), budget=truth.exhaustive), 1.0
    )
    assert run.spent <= truth.exhaustive * (1 + 1e-9)


@pytest.mark.long
def test_candidates_may_arrive_later_and_the_last_to_come_get_their_share() -> None:
    """A batch that is as large as what is left would be all information and no verdicts: so many of a stream's last
    tenth are verified as of any other."""
    run, found = run_of("priced", "informative", 3, 250)
    assert found > 0.4
    assert max(run.of) > N - 250
    verified = np.array(run.of)[np.array(run.rung) == 3] // (N // 10)
    assert verified[verified == 9].size >= 0.5 * verified.size / 10


def test_where_a_look_takes_long_a_batch_is_large() -> None:
    case = Case.of(family("informative", 2000, 0))
    k = case.truth.scores.shape[1]
    rule = Priced(Aims.with_threshold(k, case.threshold, 1), budget=case.truth.exhaustive)
    pool = CandidatePool(np.full((2000, k), np.nan), np.zeros((2000, k), dtype=bool), case.truth.costs.copy())
    some = np.arange(100)
    pool.scores[some], pool.closed[some], pool.out[some] = case.truth.scores[some], True, True
    pool.scores[:, :2], pool.closed[:, :2] = case.truth.scores[:, :2], True
    short = len(rule.choose(pool, case.truth.exhaustive))
    taken, following = {p.row for p in rule.choose(pool, case.truth.exhaustive)}, rule.next_in_ranking(pool, 50)
    assert len(following) == 50 and not taken & {p.row for p in following}, "what follows the batch by the same look"
    assert [p.index for p in following] == sorted((p.index for p in following), reverse=True)
    rule.seconds, rule.lasts = np.full(k, 0.01), 6.0
    assert len(rule.choose(pool, case.truth.exhaustive)) >= 599 > 2 * short


@pytest.mark.parametrize(("correlation", "least", "most"), [(0.0, 0.0, 0.02), (0.95, 0.3, 1.0)])
def test_what_a_rung_brings_is_what_it_tells(correlation: float, least: float, most: float) -> None:
    rng, n = np.random.default_rng(5), 3000
    truth = rng.standard_normal(n)
    scores = np.stack(
        [r * truth + math.sqrt(1 - r**2) * rng.standard_normal(n) for r in (0.5, correlation)] + [truth], axis=1
    )
    costs = np.tile([1.0, 50.0, 1000.0], (n, 1))
    rule = Priced(Aims.with_threshold(3, float(np.quantile(truth, 0.98)), 1), budget=0.05 * costs.sum())
    pool = CandidatePool(np.full((n, 3), np.nan), np.zeros((n, 3), dtype=bool), costs)
    pool.scores[:, 0], pool.closed[:, 0] = scores[:, 0], True
    some = rng.permutation(n)[:150]
    pool.scores[some], pool.closed[some], pool.out[some] = scores[some], True, True
    assert rule.worth_without(pool) == (0.0, {})  # nothing is learnt yet
    rule.choose(pool, 0.03 * costs.sum())
    worth, without = rule.worth_without(pool)
    assert list(without) == [1] and worth > 0
    assert least * worth <= worth - without[1] <= most * worth
