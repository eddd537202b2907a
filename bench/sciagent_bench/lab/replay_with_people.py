"""Replays a scheduler on known answers where people do the terminal rung: slots of a week, and answers weeks later.

The other rungs answer at once. Purchases of the terminal rung become tasks on a list. On each day people claim the most
urgent ones while a slot of the last seven days is free, and each answer comes some days after its claim. The scheduler
is asked again when answers have come, or when less than half of the list is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.candidate_pool import RECENT, WEEKS, Buyer, CandidatePool, Purchase, tasks_for_missing_hits
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.rules.priced import Priced
from sciagent_bench.replay_once import Truth

WEEK_DAYS = 7
SPREAD = 1 / 3  # standard deviation of the latency, as a fraction of it
SLOTS = 16  # purchases that a rule is asked for at a time
DAYS_STREAM = 7  # second part of the seed of the latencies, beside other random numbers of the seed


@dataclass(frozen=True)
class Laboratory:
    """The working habits of people."""

    latency: float
    """Mean number of days between a claim and its answer; normally distributed, at least 0."""
    per_week: int
    """Claims in any seven days."""
    weeks: int = 12
    """Length of the replay."""
    count: int | None = None
    """Number of hits at which the campaign ends; None: it goes on."""


@dataclass(frozen=True)
class InFlight:
    """How the scheduler treats tasks that are listed or claimed, and not answered yet."""

    reprice: bool = True
    """Whether tasks that nobody has claimed are put in order again, and withdrawn, after answers."""
    counts_out: bool = True
    """Whether tasks that are out count against the number of hits that is asked for, each with the share of hits among
    the latest answers."""
    alike: float | None = None
    """Similarity above which at most a third of the list may be alike to another task that is out; None: no limit."""


@dataclass
class LabReplay:
    """The claims of a replay in order of time; every list has one entry per claim."""

    of: list[int] = field(default_factory=list)
    """Row of the candidate."""
    claimed: list[int] = field(default_factory=list)
    """Day of the claim, from 0."""
    answered: list[float] = field(default_factory=list)
    """Day of the answer."""
    hit: list[bool] = field(default_factory=list)
    """Whether the candidate is a hit."""
    withdrawn: int = 0
    """Number of tasks that were withdrawn."""

    def hits_by(self, day: float) -> int:
        """Returns the number of hits that were known on a day."""
        return sum(hit for hit, at in zip(self.hit, self.answered, strict=True) if at <= day)

    def latest_hits(self, day: float) -> list[bool]:
        """Returns whether each of the latest answers on a day is a hit."""
        known = sorted((at, hit) for at, hit in zip(self.answered, self.hit, strict=True) if at <= day)
        return [hit for _, hit in known[-RECENT:]]

    @property
    def hits(self) -> int:
        """Returns the number of hits once all claims are answered."""
        return sum(self.hit)


class _Run:
    """One replay. `pool` holds what the scheduler knows, `listed` the tasks that nobody has claimed yet."""

    def __init__(
        self, truth: Truth, buyer: Buyer, lab: Laboratory, how: InFlight, similarity: Similarity | None, seed: int
    ) -> None:
        self.truth = truth
        self.buyer = buyer
        self.lab = lab
        self.how = how
        self.similarity = similarity
        n_scores = truth.scores.shape[1]
        n_rungs = truth.costs.shape[1]
        no_scores = np.empty((0, n_scores))
        no_closed = np.empty((0, n_rungs), dtype=bool)
        no_costs = np.empty((0, n_rungs))
        self.pool = CandidatePool(no_scores, no_closed, no_costs, truth.rungs, slots=SLOTS)
        self.pool.add(truth.costs)
        self.last = PaidIndex(n_rungs - 1)
        self.days = np.random.default_rng([seed, DAYS_STREAM])
        self.listed: dict[int, Purchase] = {}
        self.run = LabReplay()
        self.total = lab.per_week * lab.weeks

    def play(self) -> LabReplay:
        """Replays all days; returns the claims."""
        full_list = WEEKS * self.lab.per_week
        waiting = list[int]()  # numbers of the claims that are not answered yet
        for day in range(self.lab.weeks * WEEK_DAYS):
            due = [n for n in waiting if self.run.answered[n] <= day]
            waiting = [n for n in waiting if self.run.answered[n] > day]
            for n in due:
                self._answer(self.run.of[n])
            if self._is_over(day):
                break
            if day == 0 or due or len(self.listed) < full_list / 2:
                self._list_tasks(min(full_list, self._room(day, len(waiting))), is_again=bool(due))
            while self.listed and self._claims_in_week(day) < self.lab.per_week:
                waiting.append(self._claim(day))
        return self.run

    def _claims_in_week(self, day: int) -> int:
        """Returns the number of claims in the last seven days."""
        return len([claim_day for claim_day in self.run.claimed if day - claim_day < WEEK_DAYS])

    def _list_tasks(self, most: int, is_again: bool) -> None:
        """Fills the list. is_again: whether answers have come that may change its order."""
        before = set(self.listed) if self.how.reprice and is_again else set()
        if before:
            self._take_back()
        self._fill(most)
        self.run.withdrawn += len(before - set(self.listed))

    def _is_over(self, day: int) -> bool:
        return self.lab.count is not None and self.run.hits_by(day) >= self.lab.count

    def _room(self, day: int, out: int) -> int:
        """Returns how many tasks may be on the list. out: number of claimed tasks without an answer."""
        remaining_claims = self.total - len(self.run.claimed)
        if self.lab.count is None or not self.how.counts_out:
            return remaining_claims
        n_enough = tasks_for_missing_hits(self.lab.count, self.run.hits_by(day), self.run.latest_hits(day))
        return min(remaining_claims, n_enough - out)

    def _answer(self, of: int) -> None:
        answer = self.truth.scores[of, self.pool.columns(self.last)]
        self.pool.scores[of, self.pool.columns(self.last)] = answer
        self.pool.pending[of] = False
        self.pool.out[of] = True
        self.pool.tried[self.last] += 1
        self.pool.failed[self.last] += bool(np.isnan(answer).all())

    def _claim(self, day: int) -> int:
        of = max(self.listed, key=lambda row: (self.listed[row].index, -row))
        del self.listed[of]
        latency = max(0.0, float(self.days.normal(self.lab.latency, SPREAD * self.lab.latency)))
        self.run.of.append(of)
        self.run.claimed.append(day)
        self.run.answered.append(day + latency)
        self.run.hit.append(bool(self.truth.hit[of]))
        return len(self.run.of) - 1

    def _take_back(self) -> None:
        rows = list(self.listed)
        self.pool.closed[rows, self.last] = False
        self.pool.pending[rows] = False
        self.listed = {}

    def _fill(self, most: int) -> None:
        """Buys until the list is full. The other rungs answer at once."""
        while len(self.listed) < most:
            left = (self.total - len(self.run.claimed) - len(self.listed)) * float(np.median(self.pool.costs[:, -1]))
            left += float(self.pool.costs[:, :-1][~self.pool.closed[:, :-1]].sum())
            bought = False
            for purchase in self._chosen(left, most):
                of = purchase.row
                rung = purchase.rung
                if self.pool.closed[of, rung] or self.pool.pending[of]:
                    continue
                if rung != self.last:
                    self.pool.closed[of, rung] = True
                    bought = True
                    self.pool.scores[of, self.pool.columns(rung)] = self.truth.scores[of, self.pool.columns(rung)]
                    self.pool.tried[rung] += 1
                elif len(self.listed) < most and not self._is_alike(of, most):
                    self.pool.closed[of, rung] = True
                    self.pool.pending[of] = True
                    bought = True
                    self.listed[of] = purchase
            if not bought:
                break

    def _chosen(self, left: float, most: int) -> list[Purchase]:
        """Returns the next purchases: the batch of a law, and as many of its ranking behind it as the list may hold."""
        batch = self.buyer.choose(self.pool, left)
        if isinstance(self.buyer, Priced) and batch and not math.isinf(batch[-1].index):
            batch += self.buyer.next_in_ranking(self.pool, 2 * most)
        return batch

    def _is_alike(self, of: int, most: int) -> bool:
        """Returns whether a third of the list would resemble other tasks that are out, this task among them."""
        out = np.flatnonzero(self.pool.pending)
        if self.how.alike is None or self.similarity is None or not len(out):
            return False
        between = self.similarity.between(np.array([of, *self.listed], dtype=np.intp), out)
        between[np.array([of, *self.listed])[:, None] == out] = 0.0
        alike = between.max(1) > self.how.alike
        return bool(alike[0]) and int(alike[1:].sum()) >= most / 3


def replay_lab(
    truth: Truth, buyer: Buyer, lab: Laboratory, how: InFlight, similarity: Similarity | None = None, seed: int = 0
) -> LabReplay:
    """Returns the claims of a replay. similarity: of the structures, for the spread of the list."""
    return _Run(truth, buyer, lab, how, similarity, seed).play()
