"""Budgets hold: stocks, and rates in every window of seven days, whatever jobs cost in the end."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sciagent.domain.cost_and_budget import ALWAYS_TAKEN, SLACK, WEEK, Budget, BudgetLimits, Cost, Recent
from sciagent.verification.cost_models import MIN_OBSERVATIONS, CostModel

DAY = 86400.0
START = datetime(2026, 11, 17, 9, 0, tzinfo=UTC).timestamp()


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def budget(clock: Clock | None = None, before: float = 0.0, **limits: object) -> Budget:
    return Budget(BudgetLimits(**limits), clock or Clock(), before)  # type: ignore[arg-type]


# What fits, and what is said of it


def test_a_stock_holds_what_is_spent_and_what_is_reserved() -> None:
    b = budget(stocks={"core_seconds": 100.0})
    b.spend(Cost(core_seconds=50))
    b.reserve(1, Cost(core_seconds=30))
    assert b.fits(Cost(core_seconds=20)) and not b.fits(Cost(core_seconds=21))
    assert (b.room("core_seconds"), b.room("money")) == (20, math.inf)
    b.release(Cost(core_seconds=30))
    assert b.fits(Cost(core_seconds=50))
    assert b.exhausted() is None
    b.spend(Cost(core_seconds=50))
    assert b.exhausted() == "core_seconds: 100 of 100"


def test_a_rate_comes_back_after_seven_days() -> None:
    clock = Clock()
    b = budget(clock, rates={"lab_slots": 5.0})
    for _ in range(5):
        assert b.fits(Cost(lab_slots=1))
        b.spend(Cost(lab_slots=1))
        clock.now += DAY
    assert not b.fits(Cost(lab_slots=1))
    clock.now = START + WEEK - 1
    assert not b.fits(Cost(lab_slots=1))
    clock.now = START + WEEK
    assert b.fits(Cost(lab_slots=1)) and not b.fits(Cost(lab_slots=2))
    assert b.used() == {"lab_slots": 4.0}


def test_a_rate_that_is_used_up_says_when_it_goes_on_and_is_never_gone_for_good() -> None:
    clock = Clock()
    b = budget(clock, rates={"lab_slots": 5.0})
    clock.now += 12.5 * 60
    b.spend(Cost(lab_slots=2))
    clock.now += DAY
    b.spend(Cost(lab_slots=3))
    assert b.exhausted() is None
    assert b.resumption_text([Cost(lab_slots=1)]) == "lab_slots: 5 of 5 in seven days; more on 2026-11-24 09:13 UTC"
    assert b.resumption_text([Cost(lab_slots=3)]) == "lab_slots: 5 of 5 in seven days; more on 2026-11-25 09:13 UTC"
    assert b.slot_at(Cost(lab_slots=1)) == datetime(2026, 11, 24, 9, 13, tzinfo=UTC)
    assert b.slot_at(Cost(lab_slots=6)) is b.slot_at(Cost(money=1)) is None, "never, and no weekly limit"
    assert b.resumption_text([Cost(lab_slots=3), Cost(lab_slots=1)]) == b.resumption_text([Cost(lab_slots=1)])
    assert b.resumption_text([Cost(lab_slots=6)]) is None, "no week holds it"
    assert b.resumption_text([Cost(core_seconds=6)]) is None, "nothing is in its way"
    assert b.resumption_text([]) is None


def test_several_jobs_need_the_stocks_of_all_and_the_weekly_amounts_of_one() -> None:
    b = budget(stocks={"money": 100.0}, rates={"lab_slots": 1.0})
    one = {"money": 40.0, "lab_slots": 1.0}
    assert b.needed_for(1, one) == one
    assert b.needed_for(3, one) == {"money": 120.0, "lab_slots": 1.0}
    assert b.fits(b.needed_for(2, one)) and not b.fits(b.needed_for(3, one))


def test_what_waits_for_a_rate_and_has_no_stock_left_waits_for_nothing() -> None:
    b = budget(stocks={"money": 10.0}, rates={"lab_slots": 1.0, "gpu_seconds": 3.0})
    b.spend(Cost(lab_slots=1, money=8, gpu_seconds=3))
    assert b.resumption_text([Cost(lab_slots=1, money=3)]) is None
    said = b.resumption_text([Cost(lab_slots=1, money=2, gpu_seconds=1)])
    assert said is not None and said.startswith("lab_slots: 1 of 1 in seven days; gpu_seconds: 3 of 3 in seven days;")


def test_a_rate_that_is_used_up_leaves_alone_what_does_not_take_it() -> None:
    b = budget(stocks={"core_seconds": 100.0}, rates={"lab_slots": 1.0})
    b.spend(Cost(lab_slots=1.5))
    assert b.fits(Cost(core_seconds=100)) and not b.fits(Cost(core_seconds=1, lab_slots=0.1))


@pytest.mark.parametrize(
    "limits", [BudgetLimits(stocks={"core_seconds": 1.0}), BudgetLimits(rates={"core_seconds": 1.0})]
)
def test_what_declares_no_cpu_time_still_waits_for_it(limits: BudgetLimits) -> None:
    b = Budget(limits, Clock())
    b.spend(Cost(core_seconds=1.5))
    assert not b.fits(Cost()) and not b.fits(Cost(money=1))


def test_limits_and_what_is_used_go_by_the_same_names() -> None:
    clock = Clock()
    b = budget(clock, 600.0, stocks={"money": 9.0}, rates={"core_seconds": 50.0}, jobs={2: 7}, wall_seconds=3600.0)
    clock.now += 60
    b.reserve(2, Cost(core_seconds=5, money=1))
    b.spend(Cost(core_seconds=3))
    assert b.limits() == {"money": 9.0, "core_seconds": 50.0, "rung 2": 7.0, "wall_seconds": 3600.0}
    assert b.used() == {"money": 1.0, "core_seconds": 8.0, "rung 2": 1.0, "wall_seconds": 660.0}
    assert (b.remaining_jobs(2), b.remaining_jobs(3)) == (6, None)


def test_the_clock_goes_on_when_all_else_begins_again_and_rests_in_a_pause() -> None:
    clock = Clock()
    b = budget(clock, 30.0, wall_seconds=100.0)
    clock.now += 40
    b.restate(BudgetLimits(wall_seconds=90.0))
    assert b.used() == {"wall_seconds": 70.0}
    assert b.fits(Cost(core_seconds=20)) and not b.fits(Cost(core_seconds=21))
    b.subtract_idle_time(25)
    assert b.used() == {"wall_seconds": 45.0}
    clock.now += 45
    assert b.exhausted() == "wall time: 1.5 of 1.5 minutes"


def test_what_was_booked_before_counts_from_when_it_was_booked() -> None:
    clock = Clock()
    b = budget(clock)
    before = [("money", 3.0, START - WEEK + 10), ("gpu_seconds", 1.0, START - 9), ("money", 4.0, START - DAY)]
    b.restate(BudgetLimits(rates={"money": 8.0}), spent={"money": 50.0}, recent=before)
    assert b.room("money") == 1.0
    clock.now += 10
    assert b.room("money") == 4.0


def test_nothing_is_a_stock_and_a_rate() -> None:
    with pytest.raises(ValueError, match="money is both a stock and a rate"):
        BudgetLimits(stocks={"money": 1.0}, rates={"money": 1.0})


# The window

booked = st.lists(st.tuples(st.floats(0, 3 * DAY), st.floats(0, 100)), max_size=30)


@settings(max_examples=150, deadline=None)
@given(booked)
def test_the_window_forgets_nothing_early_and_nothing_late(steps: list[tuple[float, float]]) -> None:
    """Against the sum over all that was ever booked."""
    recent, all_, now = Recent(), list[tuple[float, float]](), START
    for wait, amount in steps:
        now += wait
        recent.add(amount, now)
        all_.append((now, amount))
        exact = sum(a for at, a in all_ if at > now - WEEK)
        assert exact - 1e-6 <= recent.sum(now) <= exact + 1e-6


@settings(max_examples=150, deadline=None)
@given(booked, st.floats(0, 300))
def test_when_the_sum_has_fallen_is_when_it_is_said_to(steps: list[tuple[float, float]], level: float) -> None:
    recent, now = Recent(), START
    for wait, amount in steps:
        now += wait
        recent.add(amount, now)
    at = recent.falls_to(level, now)
    assert at is not None
    early = Recent()
    early._booked, early._sum = recent._booked.copy(), recent._sum
    if at > now:
        assert early.sum(at - 1e-3) > level
    assert recent.sum(at + 1e-3) <= level + 1e-9
    assert recent.falls_to(-1.0, at) is None


# Accounts: whatever is done in whatever order

RESOURCES = ("core_seconds", "money", "lab_slots")
amounts = st.dictionaries(st.sampled_from(RESOURCES), st.floats(0.01, 50), max_size=3)
actions = st.lists(
    st.tuples(st.sampled_from(["start", "end", "lose", "turn", "wait"]), amounts, st.floats(0, 4 * DAY)), max_size=40
)


@settings(max_examples=250, deadline=None)
@given(st.floats(1, 200), st.floats(1, 200), st.floats(1, 200), actions)
def test_no_order_of_starts_ends_and_losses_overruns_a_budget_by_more_than_what_was_live(
    core: float, money: float, slots: float, steps: list[tuple[str, dict[str, float], float]]
) -> None:
    """Every amount of the steps may be a reservation, or what something really costs: of what it declared some of, and
    of core-seconds."""
    clock = Clock()
    b = budget(clock, stocks={"core_seconds": core}, rates={"money": money, "lab_slots": slots})
    log = Log(b.limits())
    live: list[Live] = []
    for action, given_, wait in steps:
        cost = Cost(given_)
        if action == "start" and b.fits(cost):
            b.reserve(0, cost)
            live.append(Live(cost))
            log.start(b, live)
        elif action in ("end", "lose") and live:
            one = live[0] if action == "lose" else live.pop(0)
            booked = {*one.reservation, ALWAYS_TAKEN}
            cost = Cost({name: amount for name, amount in cost.items() if name in booked})
            b.spend(cost)
            log.book(cost, clock.now, one)
            if action == "end":
                b.release(one.reservation)
        elif action == "turn" and b.room("core_seconds") > 0:
            turn = Cost(core_seconds=cost.get("core_seconds", 0.0))
            log.turn(turn)
            b.spend(turn)
            log.book(turn, clock.now, None)
        elif action == "wait":
            clock.now += wait
        for name, used in b.used().items():
            held = sum(one.reservation.get(name, 0.0) for one in live)
            assert used == pytest.approx(held + log.spent(name, clock.now, b), abs=1e-6)
    log.check(stocks=("core_seconds",))


@dataclass
class Live:
    """A job that has been started and is not over. costs: of its attempts so far."""

    reservation: Cost
    rung: int = 0
    declared: Cost = field(default_factory=Cost)
    costs: dict[str, float] = field(default_factory=dict)
    attempts_left: int = 0


class Log:
    """All that was booked, and after each start how much more than what was within the limit then could follow."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        self.limits = limits
        self.booked: list[tuple[float, Cost, Live | None]] = []
        self.most_live = 0
        self.dearest_turn = 0.0

    def start(self, b: Budget, live: list[Live]) -> None:
        self.most_live = max(self.most_live, len(live))
        took = live[-1].reservation
        for name, used in b.used().items():
            if took.get(name, 0.0) or name == "core_seconds":
                assert used <= self.limits[name] * SLACK + 1e-9, "a start that did not fit"

    def turn(self, cost: Cost) -> None:
        self.dearest_turn = max(self.dearest_turn, cost.get("core_seconds", 0.0))

    def book(self, cost: Cost, at: float, job: Live | None) -> None:
        self.booked.append((at, cost, job))
        if job is not None:
            for name, amount in cost.items():
                job.costs[name] = job.costs.get(name, 0.0) + amount

    def spent(self, name: str, now: float, b: Budget) -> float:
        """What the budget should count as spent."""
        since = -math.inf if name in b._limits.stocks else now - WEEK
        return sum(c.get(name, 0.0) for at, c, _ in self.booked if at > since)

    def beyond(self, name: str) -> list[float]:
        """Of each job what all its attempts cost beyond its reservation, most first."""
        jobs = {id(job): job for _, _, job in self.booked if job is not None}.values()
        more = [max(0.0, job.costs.get(name, 0.0) - job.reservation.get(name, 0.0)) for job in jobs]
        return sorted(more, reverse=True)

    def check(self, stocks: tuple[str, ...]) -> dict[str, float]:
        """The promise of `sciagent.domain.cost_and_budget`; returns the largest overrun of each resource."""
        found = {}
        for name, limit in self.limits.items():
            span = math.inf if name in stocks else WEEK
            most = max(self.windows(name, span), default=0.0)
            turn = self.dearest_turn if name == "core_seconds" else 0.0
            assert most <= limit * SLACK + sum(self.beyond(name)[: self.most_live]) + turn + 1e-6, name
            found[name] = most - limit
        return found

    def windows(self, name: str, span: float) -> Iterator[float]:
        """What was booked in each window (t - span, t] that ends with something booked."""
        first, total = 0, 0.0
        for at, cost, _ in self.booked:
            total += cost.get(name, 0.0)
            while self.booked[first][0] <= at - span:
                total -= self.booked[first][1].get(name, 0.0)
                first += 1
            yield total


# Campaigns


@dataclass
class Played:
    """What became of one random campaign."""

    log: Log
    stocks: tuple[str, ...]
    workers: int
    jobs: int
    lost: int
    rests: int


def play(seed: int) -> Played:
    """A random campaign, as the driver runs one: each worker has one job, what was lost is tried again first, a turn
    is taken while there is room, and when only rates hold it back it goes on when they are said to. Jobs of some rungs
    have a limit of time, at which they are killed, and beyond which they reserve nothing."""
    random = np.random.default_rng(seed)
    workers, n_rungs = int(random.integers(1, 9)), int(random.integers(1, 5))
    more = random.permutation(3)[: int(random.integers(1, 3))]
    names = ("core_seconds", *(("gpu_seconds", "money", "llm_tokens")[i] for i in more))
    means = {name: np.sort(10 ** random.uniform(0, 4, n_rungs)) for name in names}
    of_rung = {name: random.random(n_rungs) < 0.7 for name in names}
    of_rung["core_seconds"][:] = True
    sigma, bias = random.uniform(0.1, 1.5), np.exp(random.normal(0, 0.7, n_rungs))
    lossy, exact = random.choice((0.0, 0.1, 0.3)), random.random() < 0.2  # some cost just what was declared
    by_limit = np.random.default_rng([seed, 1])
    walls = np.where(by_limit.random(n_rungs) < 0.3, means["core_seconds"] * 10 ** by_limit.uniform(-0.5, 0.7), np.inf)
    limits = {name: float(means[name].mean() * 10 ** random.uniform(0.7, 2.7)) for name in names}
    rates = {name: limits[name] for name in names if random.random() < 0.5}
    stocks = {name: limits[name] for name in names if name not in rates}
    clock = Clock()
    b = budget(clock, stocks=stocks, rates=rates)
    models, log = [CostModel() for _ in range(n_rungs)], Log(b.limits())
    running: list[tuple[float, int, Live]] = []
    again: list[Live] = []
    n, lost, rests, until = 0, 0, 0, START + 5 * WEEK

    def candidate() -> tuple[int, Cost]:
        rung, spread = int(random.integers(n_rungs)), np.exp(random.normal(0, 0.5))
        return rung, Cost({r: float(means[r][rung] * spread) for r in names if of_rung[r][rung]})

    def within(rung: int, cost: Cost) -> Cost:
        """The cost of a job that is killed when its time is over."""
        return Cost({**cost, "core_seconds": min(cost.get("core_seconds", 0.0), float(walls[rung]))})

    def reservation(rung: int, declared: Cost) -> Cost:
        return within(rung, models[rung].reservation(declared))

    waiting = [candidate() for _ in range(8)]
    while clock.now < until and n < 400:
        for _ in range(int(random.integers(1, 4))):
            if b.room("core_seconds") > 0:
                turn = Cost(core_seconds=float(random.exponential(0.02 * means["core_seconds"][0])))
                log.turn(turn)
                b.spend(turn)
                log.book(turn, clock.now, None)
        while len(running) < workers:
            if again:
                one = again.pop(0)
            else:
                fit = (i for i, (rung, declared) in enumerate(waiting) if b.fits(reservation(rung, declared)))
                i = next(fit, -1)
                if i < 0 or b.exhausted():
                    break
                n += 1
                (rung, declared), waiting[i] = waiting[i], candidate()
                one = Live(reservation(rung, declared), rung, declared)
                one.attempts_left = int(random.random() < lossy) + int(random.random() < lossy)
                b.reserve(rung, one.reservation)
                log.start(b, [*(job for _, _, job in running), one])
            seconds = one.declared["core_seconds"] * float(random.uniform(0.5, 20))
            heapq.heappush(running, (clock.now + seconds, n * 10 + one.attempts_left, one))
        if not running:
            reservations = [reservation(rung, declared) for rung, declared in waiting]
            waits = [w for one in reservations if (w := b.waits_until(one)) and w[1]]
            if not waits or b.exhausted():
                break
            assert b.resumption_text(reservations)
            clock.now, rests = max(clock.now + 1, min(waits)[0]), rests + 1
            assert any(map(b.fits, reservations)), "it goes on when it was said to"
            continue
        clock.now, _, one = heapq.heappop(running)
        scale = bias[one.rung] * np.exp(random.normal(0, sigma) + random.normal(0, 0.2, len(one.declared)))
        scales = np.ones(len(scale)) if exact else scale
        actual = Cost({r: a * float(x) for (r, a), x in zip(one.declared.items(), scales, strict=True)})
        actual = within(one.rung, actual)
        if one.attempts_left:
            part = Cost({r: a * float(random.random()) for r, a in actual.items()})
            one.attempts_left, lost = one.attempts_left - 1, lost + 1
            b.spend(part)
            log.book(part, clock.now, one)
            again.append(one)
        else:
            b.spend(actual)
            b.release(one.reservation)
            log.book(actual, clock.now, one)
            models[one.rung].observe(one.declared, actual)
    for _, _, one in running:  # what runs at the end may finish
        actual = within(one.rung, one.declared if exact else Cost({r: 3 * a for r, a in one.declared.items()}))
        log.book(actual, clock.now, one)
        b.spend(actual)
        b.release(one.reservation)
    return Played(log, tuple(stocks), workers, n, lost, rests)


@pytest.fixture(scope="module")
def played() -> list[Played]:
    return [play(seed) for seed in range(80)]


def test_no_campaign_overruns_a_budget_by_more_than_one_job_a_worker(played: list[Played]) -> None:
    """Of each resource, and for rates in every window of seven days: spent <= limit + what the dearest jobs, one a
    worker, cost beyond their reservations + one turn of the proposer."""
    for one in played:
        assert one.log.most_live <= one.workers
        one.log.check(one.stocks)


def test_the_campaigns_that_prove_it_are_no_easy_ones(played: list[Played]) -> None:
    """Many jobs and losses, cost models that learn, both kinds of limits; budgets that are used up and overrun, rates
    that hold a campaign back."""
    assert sum(one.jobs for one in played) > 4000
    assert sum(one.lost for one in played) > 400
    assert sum(one.jobs > 4 * MIN_OBSERVATIONS for one in played) > 40
    stocks = [name for one in played for name in one.stocks]
    rates = [name for one in played for name in one.log.limits if name not in one.stocks]
    assert min(len(stocks), len(rates)) > 80
    over = [more > 0 for one in played for more in one.log.check(one.stocks).values()]
    assert 40 < sum(over) < len(over) - 40
    assert sum(one.rests > 0 for one in played) > 20


# Slots of people: booked at the claim, answered much later


@pytest.mark.parametrize("days", [1, 7, 14, 28])
@pytest.mark.parametrize("start", [0, 3, 6])
def test_five_slots_a_week_are_five_a_week_whatever_the_latency(days: int, start: int) -> None:
    """Over 26 weeks the claims reach the limit, and no seven days have more, however long answers take."""
    spread = np.random.default_rng(start).uniform(0.3, 1.7, 40)
    clock = Clock()
    clock.now += start * DAY
    b, claims, out = budget(clock, rates={"lab_slots": 5.0}), [], list[float]()
    for hour in range(26 * 7 * 24):
        clock.now = START + start * DAY + hour * 3600
        out = [at for at in out if at > clock.now]  # what comes back books nothing: its slot was booked at the claim
        while b.fits(Cost(lab_slots=1)) and len(out) < 40:
            b.spend(Cost(lab_slots=1))
            claims.append(clock.now)
            out.append(clock.now + days * DAY * spread[len(claims) % len(spread)])
    assert len(claims) / 26 == pytest.approx(5.0, abs=0.2)
    for at in claims:
        assert sum(at <= other < at + WEEK - 1 for other in claims) <= 5
