"""The scheduler `priced` in a campaign: turns its purchases into choices, and stores its law in the ledger.

A row of `law` is written each time hyper-parameters were fitted or the audit has changed; a new driver continues from
that row. The budget is spent no faster than candidates come: with n of N proposals made, at most n / N of it.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Set

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.pricing.auditing import Auditing
from sciagent.campaign.pricing.priced_campaign import WALL, PricedCampaign
from sciagent.campaign.pricing.purchasing import Basket, Blocked, BlockedBy, Purchasing, side_by_side
from sciagent.domain.ladder import PaidIndex, Position
from sciagent.domain.ports import Choice
from sciagent.domain.states import CampaignState
from sciagent.scheduling.arrays import Array, Mask, RowIndices
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.store.results import laws
from sciagent.store.results.laws import AUDIT

FIRST = 1e5  # index of purchases made without the law; lower than that of a person's promotion
THOUGHT = 0.05  # share of time for evaluating candidates again while workers are busy
WAITING = 0.1  # share of time for evaluating candidates while workers wait for it
SLOW = 1.0  # an evaluation longer than this, in seconds, is not repeated in one dispatch
SELECTIVE = 10  # expected candidates, without a limit on proposals, over the number that could all be verified
FURTHER = 512  # purchases that are tried at a time when those above them in the ranking exceed the budget
WORTH = 1e-4  # expected payoff below which a candidate is not worth a job


class Pricing(Purchasing):
    """Purchasing by the scheduler `priced`."""

    reorders = True

    def __init__(self, campaign: PricedCampaign, connection: Connection, budget: BudgetTracker) -> None:
        super().__init__(campaign.pool, budget)
        self._built = campaign.built
        self._schema = campaign.schema
        self._campaign = campaign
        self._numeraire = campaign.numeraire
        self.priced = campaign.scheduler

        self.law_version: str | None = None
        """Version of the campaign's last row of `law`."""
        self._written = 0  # number of fits at the last row of `law`
        self._queue: deque[Purchase] = deque()
        self._given: dict[tuple[int, int], Purchase] = {}  # last chosen purchases, by candidate id and position
        self._stale = True
        self._asked_at = 0.0
        self._took = 0.0
        self._wanted: Mask | None = None  # (n,) candidates worth a purchase; None: to be computed again
        self._count = 0  # number of wanted candidates
        self._may_start: list[PaidIndex] = []  # rungs that could start more jobs when `_wanted` was computed
        self._free: list[PaidIndex] | None = None  # rungs that every candidate gets; None: to be computed again
        self._in_play: Mask = np.empty(0, dtype=bool)  # (n,) candidates in play when `_free` was computed
        self._balanced: Array | None = None  # weights of the allowances from the next look on
        self._brings: dict[str, object] = {}  # worth of the rungs at the last fit
        if (row := campaign.row) is not None:
            self._brings = row.state["value"]
            self.law_version = row.version
            self._written = self.priced.fits
        self._audit = Auditing(self._built, self._schema, self.pool, connection)

    def choose(
        self, connection: Connection, slots: int, first_only: bool, places: Set[Position], put_off: Set[int]
    ) -> list[Choice]:
        """Returns at most `slots` choices, most urgent first, in the order of `side_by_side`."""
        self._catch_up(connection)
        is_new = self._refill(connection, slots, first_only, put_off)
        if self.is_done:
            self._queue.clear()
        self.blocked = None
        self._given = {}
        basket = Basket(slots, self._left(), self.budget, {})
        self._take_known(basket)
        if not first_only:
            self._take_audits(basket, self._audit.due(connection, self._spent()), put_off)
        self._take_queued(basket, places, put_off)
        if not (basket.choices or self._queue or self.is_done):
            if not (is_new or self.blocked or self.pool.pending.any()):  # the purchases in the queue were out of date
                self._look(connection, put_off)
                self._take_queued(basket, places, put_off)
            if not (first_only or self.pool.pending.any()):
                self._take_cheaper(basket, places, put_off)
            if not (basket.choices or self._queue or self.blocked):
                self.blocked = self._unreleased(first_only, put_off)
        return list(basket.choices.values())

    def _refill(self, connection: Connection, slots: int, first_only: bool, put_off: Set[int]) -> bool:
        """Fills the queue if it is empty or out of date; returns whether it did. Parameters as of `choose`."""
        if first_only:
            self._queue = deque(self.priced.for_everyone(self.pool, self._left()))
        elif put_off and not self._queue and self._took > SLOW:  # the batch exceeds the budget: go on to later ones
            self._queue = deque(side_by_side(self.priced.further(self.pool, slots), self._campaign.seconds()))
        elif not self._queue or (self._stale and time.monotonic() - self._asked_at > self._took / THOUGHT):
            self._look(connection, put_off)
        else:
            return False
        return True

    def _take_known(self, basket: Basket) -> None:
        """Adds choices that evidence in the ledger answers already; they are free."""
        pool = self.pool
        for row in list(pool.known)[: basket.slots]:
            if not (pool.out[row] or pool.pending[row]):
                position = self._schema.paid[pool.known[row]]
                basket.take(Choice(int(pool.ids[row]), position, FIRST, why="priced: known"), 0.0)

    def _take_audits(self, basket: Basket, audits: Iterable[Purchase], put_off: Set[int]) -> None:
        for purchase in audits:
            cost = float(self.pool.costs[purchase.of, purchase.rung])
            id_ = int(self.pool.ids[purchase.of])
            position = self._schema.paid[purchase.rung]
            if not basket.is_full and id_ not in basket.choices and id_ not in put_off and basket.holds(position, cost):
                why = f"{AUDIT}: the law passed it over; drawn with propensity {purchase.propensity:.3g}"
                if purchase.rung < len(self._schema.paid) - 1:
                    why += ", and an objective rests on this rung"
                basket.take(self._choice(purchase, why, self._numeraire.price(self.priced.price)), cost)

    def _take_queued(self, basket: Basket, places: Set[Position], put_off: Set[int]) -> None:
        """Adds the most urgent purchases that can start now. A purchase that cannot start stays in the queue, and so do
        later ones of its candidate, since a candidate never returns to a lower rung."""
        pool = self.pool
        waits = list[Purchase]()
        waiting_rows = set[int]()
        price = self._numeraire.price(self.priced.price) if self.priced.is_learnt else None  # shared by all choices
        while self._queue and not basket.is_full:
            purchase = self._queue.popleft()
            row = purchase.of
            position = self._schema.paid[purchase.rung]
            id_ = int(pool.ids[purchase.of])
            cost = float(pool.costs[row, purchase.rung])
            if pool.out[row] or pool.closed[row, purchase.rung]:
                continue
            if not basket.holds(position, cost):
                self._block(position, cost, basket)
            elif id_ in put_off:
                continue
            elif pool.pending[row] or id_ in basket.choices or position not in places or row in waiting_rows:
                waits.append(purchase)
                waiting_rows.add(row)
            else:
                self._given[id_, position] = purchase
                basket.take(self._choice(purchase, self._reason(purchase), price), cost)
        self._queue.extendleft(reversed(waits))

    def _block(self, position: Position, cost: float, basket: Basket) -> None:
        """Notes a purchase that exceeds the budget: the first one that more candidates would release, or the first."""
        if self.blocked is None or self.blocked.by is not BlockedBy.SLICE:
            found = self._too_dear(position, cost, basket)
            self.blocked = found if found.by is BlockedBy.SLICE else self.blocked or found

    def _take_cheaper(self, basket: Basket, places: Set[Position], put_off: Set[int]) -> None:
        """Goes down the last ranking for purchases that fit the rest of the budget, after those above did not."""
        while not (basket.choices or self._queue) and self.blocked and self.blocked.by is BlockedBy.BUDGET:
            further = self.priced.further(self.pool, FURTHER)
            if not further:
                return
            self._queue.extend(further)
            self._take_queued(basket, places, put_off)

    def _too_dear(self, position: Position, cost: float, basket: Basket) -> Blocked:
        label = self._built.rungs[position].spec.rung
        if basket.budget.remaining_jobs(position) == 0:
            return Blocked(BlockedBy.PLACES, f"all places of {label} are used")
        takes = f"{label} would take {100 * cost:.2g} % of the budget"
        left = 100 * max(basket.left, 0)
        if cost <= self._left(1.0):
            return Blocked(BlockedBy.SLICE, f"{takes}, and {left:.2g} % are released so far")
        return Blocked(BlockedBy.BUDGET, f"{takes}, and {left:.2g} % are left")

    def _unreleased(self, first_only: bool, put_off: Set[int]) -> Blocked | None:
        """Returns the obstacle if there is nothing to buy now, and would be something if more of the budget were
        released: a rung that everyone gets, or one that the law is to learn from."""
        pool = self.pool
        left = self._left()
        whole = self._left(1.0)
        if not left < whole:
            return None
        of = pool.open[~np.isin(pool.ids[pool.open], list(put_off))]
        features = self._startable(self._features())
        costs = pool.costs[of][:, features]
        lacks = ~pool.closed[of][:, features] & (costs > left) & (costs <= whole)
        learns = not (first_only or self.priced.is_learnt or pool.pending.any())
        if not lacks.any() and not (learns and self._is_wanted(of, whole).any()):
            return None
        words = f"{100 * max(left, 0):.2g} % of the budget are released so far, which hold no job that is worth it"
        return Blocked(BlockedBy.SLICE, words)

    def reorder(self, connection: Connection, tasks: Mapping[int, Position]) -> dict[int, Choice] | None:
        """Values these candidates again, beside all open ones; among the most urgent purchases of a rung are as many as
        there are tasks of it. Returns None before there is a law, and while rungs that everyone gets are lacking."""
        self._catch_up(connection)
        if not self.priced.is_learnt or self.priced.for_everyone(self.pool, math.inf):
            return None
        pool = self.pool
        places = {position: j for j, position in enumerate(self._schema.paid)}
        of: list[int] = np.flatnonzero(np.isin(pool.ids, [*tasks])).tolist()
        rung = {row: PaidIndex(places[tasks[int(pool.ids[row])]]) for row in of}
        rows = list(rung)
        pool.pending[rows] = False
        pool.closed[rows, list(rung.values())] = False
        self._look(connection, set())
        ranked = [*self._queue, *self.priced.further(pool, len(pool.open))]
        pool.pending[rows] = True
        pool.closed[rows, list(rung.values())] = True
        price = self._numeraire.price(self.priced.price)
        left = Counter(rung.values())
        kept = dict[int, Choice]()
        self._queue.clear()  # what takes the places of withdrawn tasks comes from the same ranking
        for purchase in ranked:
            if left[purchase.rung] > 0:
                left[purchase.rung] -= 1
                self._queue.append(purchase)
                if rung.get(purchase.of) == purchase.rung:
                    choice = self._choice(purchase, self._reason(purchase), price)
                    kept[choice.id] = choice
        return kept

    def withdrew(self, connection: Connection, candidate_ids: Iterable[int]) -> None:
        self.pool.touch(candidate_ids)
        self._catch_up(connection)
        self._stale = False  # the ranking holds, so that no task is withdrawn and listed again at once

    def take_back(self, unplaced: Iterable[Choice], refused: Iterable[Choice]) -> None:
        """Puts purchases that no worker could take back at the front of the queue, and removes candidates whose
        reservation exceeds the budget until the next look."""
        back = [self._given.get((choice.id, choice.position)) for choice in unplaced]
        self._queue.extendleft(purchase for purchase in reversed(back) if purchase is not None)
        put_off = {self._given[c.id, c.position].of for c in refused if (c.id, c.position) in self._given}
        if put_off:  # removed at once, since a look is due only if the queue is empty
            self._queue = deque(purchase for purchase in self._queue if purchase.of not in put_off)

    def wants(self, connection: Connection) -> int:
        """Returns the number of open candidates worth a purchase that the budget released so far can pay."""
        self._catch_up(connection)
        if self.is_done:
            return 0
        if self._share() < 1:  # more budget is released as more candidates come
            of = self.pool.open
            return int(self._is_wanted(of, self._left()).sum())
        startable = self._startable(self.pool.paid)
        if self._wanted is None or startable != self._may_start:
            self._may_start = startable
            self._wanted = self._is_wanted(np.arange(len(self.pool.ids)))
            self._count = int(self._wanted.sum())
        return self._count

    def _is_wanted(self, of: RowIndices, left: float = math.inf) -> Mask:
        """Returns (m,) whether each row of `of` is open and worth a purchase that costs no more than `left`."""
        pool = self.pool
        priced = self.priced
        features = self._features()
        free = self._startable(features)
        open_ = ~(pool.out[of] | pool.pending[of])
        lacking = np.any(~pool.closed[of][:, free] & (pool.costs[of][:, free] <= left), axis=1)
        paid = self._startable([j for j in pool.paid if j not in features])
        index = np.full(len(of), np.inf)  # infinite for candidates that were never evaluated
        looked = of < len(priced.index)
        index[looked] = np.nan_to_num(priced.index[of[looked]], nan=np.inf)
        worth = index >= max(priced.price, 1e-12)
        cost = np.where(pool.closed[of][:, paid], np.inf, pool.costs[of][:, paid]).min(axis=1, initial=np.inf)
        worth &= np.isfinite(cost) & (cost <= left)
        wanted: Mask = open_ & (lacking | worth)
        return wanted

    def _startable(self, rungs: Iterable[PaidIndex]) -> list[PaidIndex]:
        """Returns those rungs that may start more jobs."""
        return [j for j in rungs if self.budget.remaining_jobs(self._schema.paid[j]) != 0]

    def _features(self) -> list[PaidIndex]:
        """Returns the rungs that every candidate gets; computed again when costs or the candidates in play change."""
        if self._free is None:
            self._free = self.priced.free(self.pool)
            self._in_play = self.pool.in_play
        return self._free

    def is_preparing(self, connection: Connection) -> bool:
        """Whether a candidate still lacks the answer of a rung that every candidate gets."""
        self._catch_up(connection)
        pool = self.pool
        features = self._features()
        if not features:
            return False
        at_work = pool.pending & ~pool.closed[:, -1]
        lacking = ~pool.closed[pool.open][:, self._startable(features)]
        return bool(lacking.any() or at_work.any())

    @property
    def is_done(self) -> bool:
        """Whether no open candidate is expected to improve on the best one. Always False for the goal `hits`, since a
        law that predicts no hit may be wrong."""
        priced = self.priced
        of = self.pool.open
        if (
            self._schema.aims.kind == "hits"
            or not priced.is_learnt
            or not len(of)
            or len(priced.index) < len(self.pool.out)
        ):
            return False
        return bool(np.nanmax(priced.expected[of], initial=0.0) < WORTH and not np.isnan(priced.expected[of]).any())

    def ends_with_terminal(self) -> bool:
        return self.budget.remaining_jobs(self._built.terminal) == 0

    def left_over(self, n: int) -> tuple[CampaignState, str]:
        if self.is_done:
            why = f"none of {n} open candidates promises anything any more"
            if self._schema.aims.misses_all(self.pool.scores):
                why += (
                    ", since all values so far lie too far outside what the objectives ask for; `scheduler: {kind: "
                    "exhaustive}` computes every candidate"
                )
            return CampaignState.FINISHED, why
        if too_dear := self._too_dear_for_all():
            return CampaignState.BUDGET_SPENT, f"{too_dear}; {n} candidates still wait"
        return CampaignState.FINISHED, f"nothing is left to do; {n} candidates were not promoted"

    def _too_dear_for_all(self) -> str | None:
        """Returns a text if what is left of the budget verifies none of the open candidates; None otherwise."""
        costs = self.pool.costs[self.pool.open, self.pool.paid[-1]]
        left = self._left(1.0)
        if not len(costs) or costs.min() <= left:
            return None
        label = self._built.rungs[self._built.terminal].spec.rung
        takes = f"{label} would take {100 * float(costs.min()):.2g} % of the budget or more"
        return f"what is left of the budget holds no further job: {takes}, and {100 * max(left, 0):.2g} % are left"

    def _catch_up(self, connection: Connection) -> None:
        before = self.pool.arrived
        if self.pool.refresh(connection):
            self._stale = True
        if self.pool.arrived > before:
            self._cost()
            self._asked_at = -math.inf  # new candidates are evaluated at once
        self._recount()

    def _recount(self) -> None:
        """Determines again which candidates are worth a purchase, after rows of the pool have changed."""
        rows = np.unique(np.array(self.pool.changed, dtype=np.intp))
        self.pool.changed = []
        if not len(rows) or self._free is None:
            return
        pool = self.pool
        in_play = ~pool.out[rows] | np.any(pool.closed[rows], axis=1)
        if np.any(in_play != self._in_play[rows]):
            self._free = None
            self._wanted = None
        elif self._wanted is not None:
            wanted = self._is_wanted(rows)
            self._count += int(wanted.sum()) - int(self._wanted[rows].sum())
            self._wanted[rows] = wanted

    def _cost(self) -> None:
        """Computes the expected costs of all jobs again."""
        self._campaign.price_jobs()
        self._free = None
        self._wanted = None

    def _look(self, connection: Connection, put_off: Set[int]) -> None:
        """Evaluates all candidates except those put off, fills the queue, and writes a new law or audit entry."""
        began = time.monotonic()
        if self._balanced is not None:  # not earlier, so that price and costs keep one unit between two looks
            self._numeraire.weights = self._balanced
            self._balanced = None
        self._cost()
        self.pool.outlay = self._spent() if self._numeraire.allowances else None
        self.priced.seconds = self._campaign.seconds()
        self.priced.lasts = self._took * (1 / WAITING - 1)
        hidden = np.isin(self.pool.ids, list(put_off)) & ~self.pool.pending
        self.pool.pending |= hidden
        batch = self.priced.choose(self.pool, self._left())
        self.pool.pending &= ~hidden
        self._queue = deque(side_by_side(batch, self._campaign.seconds()))
        self._wanted = None
        self._asked_at = time.monotonic()
        self._took = self._asked_at - began
        self._stale = False
        news = self._audit.look(connection, self.priced, self._queue, self._spent())
        fitted = self.priced.fits > self._written
        if fitted:
            self._written = self.priced.fits
            worth, without = self.priced.worth_without(self.pool)
            labels = {j: self._built.rungs[self._schema.paid[j]].spec.rung for j in without}
            less = {labels[j]: _digits(worth_less) for j, worth_less in without.items()}
            self._brings = {"worth": _digits(worth), "without": less}
            self._balanced = self._numeraire.balanced(self._campaign.drawn(), self._left_by_name(self._share()))
        if fitted or news:
            names = [allowance.name for allowance in self._numeraire.allowances]
            state = {
                "columns": [[c.rung, c.property] for c in self._schema.columns],
                "weights": dict(zip(names, map(float, self._numeraire.weights), strict=True)),
                "failures": [round(float(p), 6) for p in self.pool.failures()],
                "value": self._brings,
                "factors": self._campaign.factors.tolist(),
                "priced": self.priced.state(),
            }
            state |= {"audit": news} if news else {}
            self.law_version = laws.write(connection, self._built.row.id, state).version

    def _left_by_name(self, share: float) -> dict[str, float]:
        """Returns the amounts that may still be spent, by allowance. share: of the budget that is released.

        Time is not released in shares, since it passes whether jobs run or not.
        """
        used = self._used()
        left = {}
        for allowance in self._numeraire.allowances:
            released = 1.0 if allowance.name == WALL else share
            left[allowance.name] = max(released * allowance.limit - used[allowance.name], 0.0)
        return left

    def _used(self) -> dict[str, float]:
        """Returns the amounts spent or reserved, by allowance."""
        used = self.budget.used()
        if self._built.spec.budget.until is not None:
            used |= self.budget.used_in_all()
        if "wall_seconds" in used:
            used["wall_seconds"] *= self._built.spec.workers
        return used

    def _spent(self) -> float:
        """Returns the amount spent or reserved, as a share of the whole budget; 0 without limits."""
        return self._numeraire.share(self._used())

    def _left(self, share: float | None = None) -> float:
        """Returns the amount that jobs may take, as a share of the whole budget; infinite without limits. share: of the
        budget that is released; default: the present one."""
        if not self._numeraire.allowances:
            return math.inf
        left = self._left_by_name(self._share() if share is None else share)
        taken = [a.name for a in self._numeraire.allowances if self._campaign.is_taken_by_jobs(a)]
        return self._numeraire.share({name: left[name] for name in taken})

    def _share(self) -> float:
        """Returns the share of the budget that may be spent now: the share of all candidates that have come."""
        if self.come is not None:
            return self.come
        pool = self.pool
        if not pool.arrived or not self._numeraire.allowances:
            return 1.0
        each = float(np.median(pool.costs[pool.open, -1])) if len(pool.open) else float(pool.costs[:, -1].max())
        return min(1.0, pool.arrived * each / SELECTIVE) if each > 0 else 1.0

    def _choice(self, purchase: Purchase, why: str, price: dict[str, float] | None) -> Choice:
        id_ = int(self.pool.ids[purchase.of])
        position = self._schema.paid[purchase.rung]
        return Choice(id_, position, min(purchase.index, FIRST), purchase.propensity, why, self.law_version, price)

    def _reason(self, purchase: Purchase) -> str:
        label = self._built.rungs[self._schema.paid[purchase.rung]].spec.rung
        if not math.isfinite(purchase.index):
            if purchase.rung in self._features() and not self.pool.closed[purchase.of, -1]:
                return f"priced: {label} costs so little that everyone gets it"
            return "priced: one of the first few, up the whole ladder, for the law to learn from"
        if purchase.valuation is None:
            return "priced"
        what = "chance of a hit" if self._schema.aims.kind == "hits" else "expected payoff"
        cost = float(self.pool.costs[purchase.of, purchase.rung])
        takes = f"{100 * cost:.2g} % of the budget" if self._numeraire.allowances else f"{cost:.3g} core-seconds"
        payoff = 100 * purchase.valuation.payoff
        price = self.priced.price
        return f"priced: {what} {payoff:.3g} %, index {purchase.index:.3g} at price {price:.3g}; {label} takes {takes}"


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
