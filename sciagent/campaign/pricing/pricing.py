"""The priced ladder of a campaign: from the ledger to a pool, from the law's purchases to choices, and back.

What was learnt is written as a row of `law` each time hyper-parameters were looked for or the audit has news; a driver
that takes over begins there. The budget is spent no faster than candidates come: with n of the N proposals made, n / N
of it.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Collection, Container, Iterable

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.pricing.auditing import Audit, Auditing
from sciagent.campaign.pricing.batch_order import side_by_side
from sciagent.campaign.pricing.priced_campaign import PricedCampaign
from sciagent.domain.campaigns.ladder import PaidIndex, Position
from sciagent.domain.campaigns.ports import Choice
from sciagent.domain.jobs.states import CampaignState
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.priced import SOME, Patience
from sciagent.store.results import laws
from sciagent.store.results.audits import AUDIT

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]

FIRST = 1e5  # index of what is bought unasked; below what a person promotes
THOUGHT = 0.05  # of the time may go into looking at the candidates again while workers have something to do,
WAITING = 0.1  # and while they wait for it
DECIDING = 1e-3  # seconds that a decision takes at least, whatever it buys
TIMES = ("core_seconds", "gpu_seconds")
SELECTIVE = 10  # without a limit on proposals so many times more are expected than could all be verified
WORTH = 1e-4  # payoff that no candidate promises: there is nothing left to find


class Pricing:
    """Purchasing by the law, of one campaign, in its driver."""

    def __init__(self, campaign: PricedCampaign, connection: Connection) -> None:
        self._built, self._schema, self.pool = campaign.built, campaign.schema, campaign.pool
        self._campaign, self._numeraire, self.priced = campaign, campaign.numeraire, campaign.scheduler

        self.law_version: str | None = None
        """The last row of `law` of this campaign."""

        self.come: float | None = None
        """Share of the candidates that are to come; None where nobody knows how many will."""

        self.blocked: str | None = None
        """What is worth buying, but not yet, or not any more, within the budget, in words."""

        self._written = 0
        self._queue: deque[Purchase] = deque()
        self._given: dict[tuple[int, int], Purchase] = {}  # of it, the last time; by candidate and position
        self._stale, self._asked_at, self._took = True, 0.0, 0.0
        self._wanted: Mask | None = None  # who is worth a purchase, by row; None: all are to be counted again
        self._count = 0  # of them
        self._free: list[PaidIndex] | None = None  # rungs that everyone gets; None: to be worked out again
        self._in_play: Mask = np.empty(0, dtype=bool)  # as of then
        self._balanced: Array | None = None  # weights of the budgets from the next look on
        self._brings: dict[str, object] = {}  # what the rungs do, as of the last fit
        if (row := campaign.row) is not None:
            self._brings = row.state.get("value", {})
            self.law_version, self._written = row.version, self.priced.fits
        self._audit = Auditing(self._built, self._schema, self.pool, connection)

    def touch(self, candidate_ids: Iterable[int]) -> None:
        """Something was written about these candidates."""
        self.pool.touch(candidate_ids)

    def choose(
        self,
        connection: Connection,
        purse: BudgetTracker,
        slots: int,
        first_only: bool,
        places: Container[Position],
        put_off: Collection[int] = (),
    ) -> list[Choice]:
        """At most `slots` choices, most urgent first, but see `batch_order`. first_only: nothing that costs more than
        next to nothing. places: positions of rungs whose jobs somebody may take; what is for others waits, and so does
        what comes after it for the same candidate: who has seen a rung is not sent to one below. put_off: candidates
        that are passed over, for the budget does not hold what they would reserve."""
        self._catch_up(connection)
        found = self._known(slots)
        taken = {one.id for one in found}
        self.blocked = None
        if not first_only and self._is_due():
            self._look(connection, purse, put_off)
        elif first_only:
            self._queue = deque(self.priced.for_everyone(self.pool, self._left(purse)))
        if self.is_done:
            self._queue.clear()
        waits: list[Purchase] = []
        waiting: set[int] = set()  # their rows
        self._given = {}
        left = self._left(purse)
        price = self._numeraire.price(self.priced.price) if self.priced.is_learnt else None  # one object for all
        for audit in () if first_only else self._audit.due(connection, self._spent(purse)):
            one = audit.purchase
            cost = float(self.pool.costs[one.of, one.rung])
            room = cost <= left and purse.remaining_jobs(self._schema.paid[one.rung]) != 0
            if room and len(found) < slots and (id_ := int(self.pool.ids[one.of])) not in taken and id_ not in put_off:
                left -= cost
                taken.add(id_)
                found.append(self._audited(audit))
        while self._queue and len(found) < slots:
            one = self._queue.popleft()
            pool, position = self.pool, self._schema.paid[one.rung]
            id_ = int(self.pool.ids[one.of])
            if pool.out[one.of] or pool.closed[one.of, one.rung]:
                continue
            cost = float(pool.costs[one.of, one.rung])
            if cost > left or purse.remaining_jobs(position) == 0:
                self.blocked = self.blocked or self._too_dear(one, cost, left, purse)
                continue
            if id_ in put_off:
                continue
            if pool.pending[one.of] or id_ in taken or position not in places or one.of in waiting:
                waits.append(one)
                waiting.add(one.of)
                continue
            left -= cost
            taken.add(id_)
            self._given[id_, position] = one
            found.append(self._choice(one, price))
        self._queue.extendleft(reversed(waits))
        return found

    def _too_dear(self, one: Purchase, cost: float, left: float, purse: BudgetTracker) -> str:
        position = self._schema.paid[one.rung]
        label = self._built.rungs[position].spec.rung
        if purse.remaining_jobs(position) == 0:
            return f"all places of {label} are used"
        return f"{label} would take {100 * cost:.2g} % of the budget, and {100 * max(left, 0):.2g} % are left"

    def take_back(self, unplaced: Iterable[Choice], refused: Iterable[Choice]) -> None:
        """Take back purchases of the last choice. unplaced: no worker could take them now; they stay the most urgent.
        refused: the budget does not hold what they reserve; their candidates are put off until the next look."""
        back = [self._given.get((one.id, one.position)) for one in unplaced]
        self._queue.extendleft(one for one in reversed(back) if one is not None)
        put_off = {given.of for one in refused if (given := self._given.get((one.id, one.position))) is not None}
        if put_off:  # at once, for a queue of nothing else would say that no look is due
            self._queue = deque(one for one in self._queue if one.of not in put_off)

    def wants(self, connection: Connection, purse: BudgetTracker) -> int:
        """How many open candidates are worth a purchase, and one that may be made by now: while they are few, more are
        to be proposed."""
        self._catch_up(connection)
        if self._share() < 1:  # more may be spent once more have come
            of = self.pool.open
            return int(self._is_wanted(of, self._left(purse)).sum())
        if self._wanted is None:
            self._wanted = self._is_wanted(np.arange(len(self.pool.ids)))
            self._count = int(self._wanted.sum())
        return self._count

    def _is_wanted(self, of: Places, left: float = math.inf) -> Mask:
        """(n,) whether they are open and worth a purchase that costs no more than `left`."""
        pool, priced, free = self.pool, self.priced, self._features()
        open_ = ~(pool.out[of] | pool.pending[of])
        lacking = np.any(~pool.closed[of][:, free], axis=1)
        paid = [j for j in pool.paid if j not in free]
        index = np.full(len(of), np.inf)  # of whom nobody has looked at
        looked = of < len(priced.index)
        index[looked] = np.nan_to_num(priced.index[of[looked]], nan=np.inf)
        worth = index >= max(priced.price, 1e-12)
        if math.isfinite(left):
            cost = np.where(pool.closed[of][:, paid], np.inf, pool.costs[of][:, paid])
            worth &= cost.min(axis=1, initial=np.inf) <= left
        found: Mask = open_ & (lacking | worth)
        return found

    def _features(self) -> list[PaidIndex]:
        """The rungs that everyone gets: worked out when costs change, or who is in play."""
        if self._free is None:
            self._free, self._in_play = self.priced.free(self.pool), self.pool.in_play
        return self._free

    def is_preparing(self, connection: Connection) -> bool:
        """Whether a rung that everybody gets is still to answer for somebody."""
        self._catch_up(connection)
        pool = self.pool
        if not self._features():
            return False
        at_work = pool.pending & ~pool.closed[:, -1]
        return bool(self.priced.for_everyone(pool, math.inf)) or bool(at_work.any())

    @property
    def is_done(self) -> bool:
        """Whether no open candidate promises anything any more: for `best`, none is expected to beat the best. Hits are
        looked for while there is a budget: a law that sees none may be wrong."""
        priced, of = self.priced, self.pool.open
        if (
            self._schema.aims.kind == "hits"
            or not priced.is_learnt
            or not len(of)
            or len(priced.index) < len(self.pool.out)
        ):
            return False
        return bool(np.nanmax(priced.expected[of], initial=0.0) < WORTH and not np.isnan(priced.expected[of]).any())

    def ends_with_terminal(self, purse: BudgetTracker) -> bool:
        return purse.remaining_jobs(self._built.terminal) == 0

    def left_over(self, n: int) -> tuple[CampaignState, str]:
        if self.is_done:
            return CampaignState.FINISHED, f"none of {n} open candidates promises anything any more"
        return CampaignState.FINISHED, f"nothing is left to do; {n} candidates were not promoted"

    def _catch_up(self, connection: Connection) -> None:
        before = self.pool.arrived
        if self.pool.refresh(connection):
            self._stale = True
        if self.pool.arrived > before:
            self._cost()
            self._asked_at = -math.inf  # whoever is new is looked at
        self._recount()

    def _recount(self) -> None:
        """What is known of all candidates, after some rows have changed."""
        rows, self.pool.changed = np.unique(np.array(self.pool.changed, dtype=np.intp)), []
        if not len(rows) or self._free is None:
            return
        pool = self.pool
        in_play = ~pool.out[rows] | np.any(pool.closed[rows], axis=1)
        if np.any(in_play != self._in_play[rows]):
            self._free = self._wanted = None
        elif self._wanted is not None:
            now = self._is_wanted(rows)
            self._count += int(now.sum()) - int(self._wanted[rows].sum())
            self._wanted[rows] = now

    def _cost(self) -> None:
        """Expected costs of all jobs in the one unit, by what was learnt of each rung's."""
        self._campaign.price_jobs()
        self._free = self._wanted = None

    def _is_due(self) -> bool:
        if not self._queue:
            return True
        return self._stale and time.monotonic() - self._asked_at > self._took / THOUGHT

    def _look(self, connection: Connection, purse: BudgetTracker, put_off: Collection[int]) -> None:
        """Ask the law anew, for all but those that are put off."""
        began = time.monotonic()
        if self._balanced is not None:  # only now, so that price and costs are in one unit until the next look
            self._numeraire.weights, self._balanced = self._balanced, None
        self._cost()
        self.pool.outlay = self._spent(purse) if self._numeraire.allowances else None
        self.priced.patience = Patience(self._seconds(), self._took * (1 / WAITING - 1))
        hidden = np.isin(self.pool.ids, list(put_off)) & ~self.pool.pending
        self.pool.pending |= hidden
        batch = self.priced.choose(self.pool, self._left(purse))
        self.pool.pending &= ~hidden
        self._queue = deque(side_by_side(batch, self._seconds()))
        self._wanted = None
        self._asked_at = time.monotonic()
        self._took, self._stale = self._asked_at - began, False
        news = self._audit.look(connection, self.priced, self._queue, self._spent(purse))
        fitted = self.priced.fits > self._written
        if fitted:
            self._written = self.priced.fits
            self._brings = self._worth()
            self._rebalance(purse)
        if fitted or news:
            state = self._state() | ({"audit": news} if news else {})
            self.law_version = laws.write(connection, self._built.row.id, state)

    def _worth(self) -> dict[str, object]:
        """What the candidates are worth, and by rung what they would be worth without it."""
        worth, without = self.priced.worth_without(self.pool)
        labels = {j: self._built.rungs[self._schema.paid[j]].spec.rung for j in without}
        return {"worth": _digits(worth), "without": {labels[j]: _digits(one) for j, one in without.items()}}

    def _seconds(self) -> Array:
        """(k,) how long a job of each rung keeps all workers busy; for ever where it takes more than their time."""
        rows = self.pool.open
        rows = rows[:: math.ceil(len(rows) / SOME) or 1]
        factors = self._campaign.factors
        total = np.zeros(len(factors))
        for resource, declared in self.pool.declared.items():
            each = np.median(declared[rows], axis=0) if len(rows) else np.zeros(len(factors))
            total += each * factors if resource in TIMES else np.where(each > 0, np.inf, 0.0)
        busy: Array = total / self._built.spec.workers + DECIDING
        return busy

    def _rebalance(self, purse: BudgetTracker) -> None:
        bought = self.priced.purchases
        rows = self.pool.open
        rows = rows[rows < len(bought)]
        factors = self._campaign.factors
        left, drawn = self._left_by_name(purse), {}
        for one in self._numeraire.allowances:
            if one.rung is not None:
                drawn[one.name] = float(bought[rows, one.rung].sum())
            elif one.resource in self.pool.declared:
                drawn[one.name] = float(
                    (bought[rows] * self.pool.declared[one.resource][rows] * one.factors(factors)).sum()
                )
            else:
                drawn[one.name] = 0.0
        self._balanced = self._numeraire.balanced(drawn, left)

    def _left_by_name(self, purse: BudgetTracker) -> dict[str, float]:
        """What may be spent by now, by allowance."""
        used, share = self._used(purse), self._share()
        return {one.name: max(share * one.limit - used[one.name], 0.0) for one in self._numeraire.allowances}

    def _used(self, purse: BudgetTracker) -> dict[str, float]:
        """What was spent or is reserved, by allowance."""
        used = purse.used()
        if "wall_seconds" in used:
            used["wall_seconds"] *= self._built.spec.workers
        return used

    def _spent(self, purse: BudgetTracker) -> float:
        """In shares of the whole budget; 0 without one: then nobody is passed over."""
        return self._numeraire.share(self._used(purse))

    def _left(self, purse: BudgetTracker) -> float:
        return self._numeraire.share(self._left_by_name(purse)) if self._numeraire.allowances else math.inf

    def _share(self) -> float:
        """The share of the budget that may be spent by now: the share of all candidates that have come."""
        if self.come is not None:
            return self.come
        arrived = self.pool.arrived
        pool = self.pool
        if not arrived or not self._numeraire.allowances:
            return 1.0
        each = float(np.median(pool.costs[pool.open, -1])) if len(pool.open) else float(pool.costs[:, -1].max())
        return min(1.0, arrived * each / SELECTIVE) if each > 0 else 1.0

    def _known(self, slots: int) -> list[Choice]:
        """What was answered elsewhere costs nothing."""
        pool = self.pool
        rows = [row for row in list(self.pool.known)[:slots] if not pool.out[row] and not pool.pending[row]]
        return [
            Choice(int(self.pool.ids[row]), self._schema.paid[self.pool.known[row]], FIRST, why="priced: known")
            for row in rows
        ]

    def _choice(self, one: Purchase, price: dict[str, float] | None) -> Choice:
        position, label = self._schema.paid[one.rung], self._built.rungs[self._schema.paid[one.rung]].spec.rung
        index = min(one.index, FIRST)
        if math.isinf(one.index):
            free = one.rung in self._features() and not self.pool.closed[one.of, -1]
            why = (
                f"priced: {label} costs so little that everyone gets it"
                if free
                else ("priced: one of the first few, up the whole ladder, for the law to learn from")
            )
        else:
            why = self._reason(one, label)
        return Choice(int(self.pool.ids[one.of]), position, index, why=why, law=self.law_version, price=price)

    def _audited(self, one: Audit) -> Choice:
        position, index = self._schema.paid[one.purchase.rung], min(one.purchase.index, FIRST)
        why = f"{AUDIT}: the law passed it over; drawn with propensity {one.propensity:.3g}"
        if one.purchase.rung < len(self._schema.paid) - 1:
            why += ", and an objective rests on this rung"
        price = self._numeraire.price(self.priced.price)
        id_ = int(self.pool.ids[one.purchase.of])
        return Choice(id_, position, index, one.propensity, why, self.law_version, price)

    def _reason(self, one: Purchase, label: str) -> str:
        if one.valuation is None:
            return "priced"
        what = "chance of a hit" if self._schema.aims.kind == "hits" else "expected payoff"
        if self._numeraire.allowances:
            share = 100 * float(self.pool.costs[one.of, one.rung])
            cost = f"{label} takes {share:.2g} % of the budget"
        else:
            cost = f"{label} takes {self.pool.costs[one.of, one.rung]:.3g} core-seconds"
        payoff, price = 100 * one.valuation.payoff, self.priced.price
        return f"priced: {what} {payoff:.3g} %, index {one.index:.3g} at price {price:.3g}; {cost}"

    def _state(self) -> dict[str, object]:
        names = [one.name for one in self._numeraire.allowances]
        return {
            "columns": [[c.rung, c.property] for c in self._schema.columns],
            "weights": dict(zip(names, map(float, self._numeraire.weights), strict=True)),
            "failures": [round(float(p), 6) for p in self.pool.failures()],
            "value": self._brings,
            "priced": self.priced.state(),
        }


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
