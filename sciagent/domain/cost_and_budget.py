"""Costs and budgets.

A cost is an amount by resource. A budget limits total spending (stocks), spending in any seven days (rates), jobs by
rung and wall time.

A job starts only if the budget has room for its reservation beside all that is spent and reserved. The reservation is
held until the job is over, over all its attempts. Work without a reservation, such as the fast rungs of a proposer's
turn, starts only while some budget is left. So for every resource, and for a rate in every window of seven days,

    spent <= limit + sum over the live jobs of (cost - reservation, where positive) + cost of a turn

A job reserves the resources that it declares, and core-seconds; its spending of other resources is not limited. An
amount counts from the time of its booking. `tests/domain/test_cost_and_budget.py` checks this on random campaigns.

A measurement that a person has finished without a claim is booked in any case, since its value would be lost. What it
overdraws delays the next claim.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from sciagent.domain.rung_positions_and_tiers import Position

RESOURCE_UNITS: dict[str, str] = {
    "core_seconds": "s",  # CPU time of the whole process tree
    "gpu_seconds": "s",
    "llm_tokens": "1",
    "money": "EUR",
    "lab_slots": "1",
    "person_hours": "h",
    "licences": "1",
}

MEASURED = frozenset({"core_seconds"})  # resources that the host measures for every verifier
MAX_AMOUNT = 1e12  # largest amount of any resource; as core-seconds, 30 000 years


class Cost(dict[str, float]):
    """A cost vector, which nobody changes. Amounts are finite and not negative; resources with amount 0 are dropped."""

    def __init__(self, amounts: Mapping[str, float] | None = None, /, **more: float) -> None:
        merged = {**amounts, **more} if amounts else more
        for resource, amount in merged.items():
            if resource not in RESOURCE_UNITS:
                raise ValueError(f"unknown resource {resource!r}; known: {', '.join(RESOURCE_UNITS)}")
            if not math.isfinite(amount) or amount < 0:
                raise ValueError(f"cost {resource} = {amount!r} is not a finite, non-negative number")
        ordered = sorted(merged.items()) if len(merged) > 1 else merged.items()
        super().__init__({resource: float(amount) for resource, amount in ordered if amount})

    def __add__(self, other: Mapping[str, float]) -> Cost:
        """Returns the sum by resource."""
        if not other:
            return self
        resources = {*self, *other}
        return Cost({resource: self.get(resource, 0.0) + other.get(resource, 0.0) for resource in resources})

    def __repr__(self) -> str:
        amounts = ", ".join(f"{resource}={amount:g}" for resource, amount in self.items())
        return f"Cost({amounts})"


WEEK = 7 * 86400.0  # seconds
SLACK = 1 + 1e-9  # tolerance for rounding errors in sums
ALWAYS_TAKEN = "core_seconds"  # every job takes some, even if it declares none


@dataclass(frozen=True)
class BudgetLimits:
    """The limits of a budget; a resource or rung without an entry is not limited.

    stocks: amount by resource, for the whole campaign. rates: amount by resource, in any seven days. jobs: number of
    jobs by rung position. wall_seconds: total over all runs. Raises ValueError for a resource with stock and rate."""

    stocks: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    jobs: Mapping[Position, int] = field(default_factory=dict)
    wall_seconds: float | None = None

    def __post_init__(self) -> None:
        in_both = sorted(set(self.stocks) & set(self.rates))
        if in_both:
            raise ValueError(f"{in_both[0]} is both a stock and a rate")

    @cached_property
    def amounts(self) -> Mapping[str, float]:
        """Limits of stocks and rates by resource."""
        return {**self.stocks, **self.rates}


class Recent:
    """The amounts of one resource that were booked in the last seven days, and their sum.

    Booking times are seconds since the epoch and do not decrease. An amount counts at a time t if
    t - WEEK < booked <= t."""

    def __init__(self) -> None:
        self._booked: deque[tuple[float, float]] = deque()  # (booking time, amount), oldest first
        self._sum = 0.0

    def add(self, amount: float, at: float) -> None:
        """Books an amount at a time, or at the time of the last booking if that is later."""
        booked_at = at
        if self._booked:
            last_booked_at, _ = self._booked[-1]
            booked_at = max(at, last_booked_at)
        self._sum += amount
        self._booked.append((booked_at, amount))

    def sum(self, now: float) -> float:
        """Returns the sum over the last seven days, and forgets older amounts."""
        while self._booked:
            booked_at, amount = self._booked[0]
            if booked_at > now - WEEK:
                break
            self._booked.popleft()
            self._sum -= amount
        if not self._booked:
            self._sum = 0.0  # without rounding errors
        return self._sum

    def falls_to(self, level: float, now: float) -> float | None:
        """Returns the time at which the sum falls to `level` if nothing is added; None if never."""
        remaining_sum = self.sum(now)
        reached_at = now
        for booked_at, amount in self._booked:
            if remaining_sum <= level:
                return reached_at
            remaining_sum = remaining_sum - amount
            reached_at = booked_at + WEEK
        # all amounts have left the window by now, so the sum is 0
        return reached_at if level >= 0 else None


class Budget:
    """The budget of a campaign.

    clock: returns the time in seconds since the epoch, not decreasing. wall_seconds: wall time of earlier runs.
    """

    def __init__(self, limits: BudgetLimits, clock: Callable[[], float], wall_seconds: float = 0.0) -> None:
        self._clock = clock
        self._began = clock() - wall_seconds
        self.restate(limits)

    def restate(
        self,
        limits: BudgetLimits,
        *,
        spent: Mapping[str, float] | None = None,
        reserved: Mapping[str, float] | None = None,
        jobs: Mapping[Position, int] | None = None,
        recent: Iterable[tuple[str, float, float]] = (),
    ) -> None:
        """Replaces limits and booked amounts; the wall time goes on.

        recent: (resource, amount, booking time) of the resources with a rate, oldest first."""
        self._limits = limits
        self._wall = math.inf if limits.wall_seconds is None else limits.wall_seconds
        self._spent = defaultdict[str, float](float, spent or {})
        self._reserved = defaultdict[str, float](float, reserved or {})
        self._jobs = defaultdict[Position, int](int, jobs or {})
        self._recent = {resource: Recent() for resource in limits.rates}
        for resource, amount, at in recent:
            if resource in self._recent:
                self._recent[resource].add(amount, at)

    def subtract_idle_time(self, seconds: float) -> None:
        """Subtracts idle time from the wall time."""
        self._began += seconds

    def remaining_jobs(self, position: Position) -> int | None:
        """Returns how many more jobs the rung may start; None without a limit."""
        if position not in self._limits.jobs:
            return None
        return max(0, self._limits.jobs[position] - self._jobs[position])

    def room(self, resource: str) -> float:
        """Returns the amount that is neither spent nor reserved: negative if overspent, infinite without a limit."""
        limit = self._limits.amounts.get(resource)
        return math.inf if limit is None else limit - self._held(resource)

    def fits(self, reservation: Mapping[str, float], seconds: float | None = None) -> bool:
        """Returns whether the reservation stays within all limits, and a job of that duration within the wall time.

        seconds: duration of the job; by default its core-seconds, as for a single-threaded engine."""
        return self.shortfall(reservation, seconds) is None

    def shortfall(self, reservation: Mapping[str, float], seconds: float | None = None) -> str | None:
        """Returns a sentence on the first limit that the reservation exceeds, with both amounts; None if it fits."""
        for resource in self._limits.amounts:
            if self._is_short(resource, reservation):
                asked = reservation.get(resource, 0.0)
                left = max(self.room(resource), 0.0)
                return f"{_amount(asked)} {resource}, and {_amount(left)} are left"
        duration = reservation.get("core_seconds", 0.0) if seconds is None else seconds
        if self._wall_seconds() + duration <= self._wall:
            return None
        remaining_seconds = max(self._wall - self._wall_seconds(), 0.0)
        return f"{_amount(duration)} seconds of wall time, and {_amount(remaining_seconds)} are left"

    def scarce(self, reservation: Mapping[str, float]) -> str | None:
        """Returns the first resource whose limit the reservation exceeds; `wall_minutes` if none is short, and None if
        it fits."""
        for resource in self._limits.amounts:
            if self._is_short(resource, reservation):
                return resource
        return None if self.fits(reservation) else "wall_minutes"

    def is_rate(self, resource: str) -> bool:
        """Whether the limit of a resource is one of seven days."""
        return resource in self._limits.rates

    def stocks_of(self, cost: Mapping[str, float]) -> Cost:
        """Returns the part of a cost in resources without a weekly limit.

        A task of people reserves only this part. What it takes of a weekly limit is booked when somebody claims it.
        """
        return Cost({resource: amount for resource, amount in cost.items() if resource not in self._limits.rates})

    def needed_for(self, n_jobs: int, reservation: Mapping[str, float]) -> Cost:
        """Returns what must be left to begin n jobs with the same reservation: the stocks of all of them, and the
        weekly amounts of one, since the others may follow in later weeks."""
        of_all = {resource: n_jobs * amount for resource, amount in self.stocks_of(reservation).items()}
        return Cost({**reservation, **of_all})

    def reserve(self, position: Position, reservation: Mapping[str, float]) -> None:
        """Counts a started job of the rung and holds its reservation."""
        self._jobs[position] += 1
        self.hold(reservation)

    def hold(self, reservation: Mapping[str, float]) -> None:
        """Holds a reservation for a job that was counted before."""
        for resource, amount in reservation.items():
            self._reserved[resource] += amount

    def release(self, reservation: Mapping[str, float]) -> None:
        """Releases a reservation that was held."""
        for resource, amount in reservation.items():
            self._reserved[resource] = max(0.0, self._reserved[resource] - amount)

    def spend(self, cost: Mapping[str, float]) -> None:
        """Books a cost at the current time."""
        for resource, amount in cost.items():
            self._spent[resource] += amount
            if resource in self._recent:
                self._recent[resource].add(amount, self._clock())

    def limits(self) -> dict[str, float]:
        """Returns every limit, by resource (for a rate: per seven days), `rung 3` for jobs at position 3, and
        `wall_seconds`."""
        limits = dict(self._limits.amounts)
        for position, n_jobs in self._limits.jobs.items():
            limits[f"rung {position}"] = float(n_jobs)
        if self._limits.wall_seconds is not None:
            limits["wall_seconds"] = self._limits.wall_seconds
        return limits

    def used(self) -> dict[str, float]:
        """Returns the amounts spent (for a rate: in the last seven days) or reserved, by the names of `limits`."""
        used = {resource: self._held(resource) for resource in self._limits.amounts}
        for position in self._limits.jobs:
            used[f"rung {position}"] = float(self._jobs[position])
        if self._limits.wall_seconds is not None:
            used["wall_seconds"] = self._wall_seconds()
        return used

    def used_in_all(self) -> dict[str, float]:
        """Returns the amounts of the weekly limits that were spent in all weeks, or are reserved."""
        return {resource: self.taken(resource) for resource in self._limits.rates}

    def taken(self, resource: str) -> float:
        """Returns the amount of a resource that was spent or is reserved, whether it has a limit or not."""
        return self._spent[resource] + self._reserved[resource]

    def exhausted(self, besides: Collection[str] = ()) -> str | None:
        """Returns a text on the limit that is used up for good; None if there is none. For rates see `resumption_text`.

        besides: resources whose limits do not count."""
        if self._wall_seconds() >= self._wall:
            return f"wall time: {self._wall_seconds() / 60:.1f} of {self._wall / 60:g} minutes"
        for resource in self._limits.stocks:
            if resource in besides:
                continue
            spent_text = self.spent_up(resource)
            if spent_text is not None:
                return spent_text
        return None

    def spent_up(self, resource: str) -> str | None:
        """Returns a text on a stock that is spent; None if some of it is left, and for a resource without a stock."""
        limit = self._limits.stocks.get(resource)
        if limit is None or self._spent[resource] < limit:
            return None
        return f"{resource}: {self._spent[resource]:.0f} of {limit:g}"

    def waits_until(self, reservation: Mapping[str, float]) -> tuple[float, tuple[str, ...]] | None:
        """Returns when the reservation will fit if nothing else is spent, and the rates that delay it (none if it fits
        now).

        Returns None if it will never fit: a stock, the wall time or the whole amount of a week is too small."""
        ends_too_late = self._wall_seconds() + reservation.get("core_seconds", 0.0) > self._wall
        if ends_too_late or any(self._is_short(resource, reservation) for resource in self._limits.stocks):
            return None
        now = self._clock()
        until = now
        rates: list[str] = []
        for resource, limit in self._limits.rates.items():
            if self._is_short(resource, reservation):
                level = limit * SLACK - self._reserved[resource] - reservation.get(resource, 0.0)
                falls = self._recent[resource].falls_to(level, now)
                if falls is None:
                    return None
                until = max(until, falls)
                rates.append(resource)
        return until, tuple(rates)

    def slot_at(self, cost: Mapping[str, float]) -> datetime | None:
        """Returns when the weekly limits have room for a cost again; None if they have room now, or never."""
        rates = {resource: amount for resource, amount in cost.items() if resource in self._limits.rates}
        wait = self.waits_until(rates) if rates else None
        if wait is None:
            return None
        until, delaying_rates = wait
        return _minute(until) if delaying_rates else None

    def resumption_text(self, reservations: Iterable[Mapping[str, float]]) -> str | None:
        """Returns a text on the delayed reservation that fits first: the rates that delay it, and until when.

        None if none of the reservations is delayed."""
        delays = []
        for reservation in reservations:
            wait = self.waits_until(reservation)
            if wait is not None:
                until, delaying_rates = wait
                if delaying_rates:
                    delays.append((until, delaying_rates))
        if not delays:
            return None
        until, rates = min(delays)
        texts = []
        for resource in rates:
            limit = self._limits.rates[resource]
            texts.append(f"{resource}: {_amount(self._held(resource))} of {limit:g} in seven days")
        used = "; ".join(texts)
        return f"{used}; more on {_minute(until):%Y-%m-%d %H:%M} UTC"

    def _held(self, resource: str) -> float:
        """Returns the amount spent (for a rate: in the last seven days) plus the reserved amount."""
        recent = self._recent.get(resource)
        spent = self._spent[resource] if recent is None else recent.sum(self._clock())
        return spent + self._reserved[resource]

    def _is_short(self, resource: str, reservation: Mapping[str, float]) -> bool:
        """Whether the limit of the resource has no room for the reservation now."""
        amount = reservation.get(resource, 0.0)
        if not amount and resource != ALWAYS_TAKEN:
            return False
        return self._held(resource) + amount > self._limits.amounts[resource] * SLACK

    def _wall_seconds(self) -> float:
        """Returns the wall time used so far, s."""
        return self._clock() - self._began


def _amount(value: float) -> str:
    """Returns an amount as text: a whole number from 10 on, else two digits."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _minute(at: float) -> datetime:
    """Returns the first whole minute that is not before a time in seconds since the epoch."""
    return datetime.fromtimestamp(60 * math.ceil(at / 60), UTC)
