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
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.pricing.auditing import Auditing
from sciagent.campaign.pricing.priced_campaign import PricedCampaign
from sciagent.campaign.pricing.purchasing import Purchasing
from sciagent.domain.campaigns.ladder import PaidIndex, Position
from sciagent.domain.campaigns.ports import Choice
from sciagent.domain.jobs.states import CampaignState
from sciagent.scheduling.arrays import Array, Mask, Places
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.priced import Patience
from sciagent.store.results import laws
from sciagent.store.results.audits import AUDIT

FIRST = 1e5  # index of what is bought unasked; below what a person promotes
THOUGHT = 0.05  # of the time may go into looking at the candidates again while workers have something to do,
WAITING = 0.1  # and while they wait for it
SLOW = 1.0  # seconds that a look takes from which on it is not repeated in one dispatch
TOGETHER = 10.0  # seconds of all workers within which it does not matter who is first
SELECTIVE = 10  # without a limit on proposals so many times more are expected than could all be verified
WORTH = 1e-4  # payoff that no candidate promises: there is nothing left to find


@dataclass
class _Basket:
    """The choices of one dispatch so far, and what may still be chosen."""

    slots: int
    left: float
    purse: BudgetTracker
    choices: list[Choice]
    ids: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.ids = {choice.id for choice in self.choices}

    @property
    def is_full(self) -> bool:
        return len(self.choices) >= self.slots

    def holds(self, position: Position, cost: float) -> bool:
        """Whether the budget holds a job of the rung."""
        return cost <= self.left and self.purse.remaining_jobs(position) != 0

    def take(self, choice: Choice, cost: float) -> None:
        self.choices.append(choice)
        self.ids.add(choice.id)
        self.left -= cost


def side_by_side(batch: list[Purchase], seconds: Array) -> list[Purchase]:
    """The purchases of a batch that go out within the same few seconds in the order of the candidates' rows, and the
    rest most urgent first. One transaction then writes on few pages of the ledger; in the order of urgency it would
    write on nearly all.

    seconds: (k,) how long a job of each rung keeps all workers busy; infinite where nobody knows, and such a job keeps
    its place.
    """
    rung, of = np.array([(purchase.rung, purchase.of) for purchase in batch], dtype=np.intp).reshape(-1, 2).T
    lasts = np.where(np.isfinite(seconds), seconds, TOGETHER)
    spans = np.floor(lasts[rung].cumsum() / TOGETHER)
    return [batch[place] for place in np.lexsort((of, spans)).tolist()]


class Pricing(Purchasing):
    """Purchasing by the law, of one campaign, in its driver."""

    def __init__(self, campaign: PricedCampaign, connection: Connection) -> None:
        super().__init__(campaign.pool)
        self._built, self._schema = campaign.built, campaign.schema
        self._campaign, self._numeraire, self.priced = campaign, campaign.numeraire, campaign.scheduler

        self.law_version: str | None = None
        """The last row of `law` of this campaign."""
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
            self._brings = row.state["value"]
            self.law_version, self._written = row.version, self.priced.fits
        self._audit = Auditing(self._built, self._schema, self.pool, connection)

    def choose(
        self,
        connection: Connection,
        purse: BudgetTracker,
        slots: int,
        first_only: bool,
        places: Container[Position],
        put_off: Collection[int] = (),
    ) -> list[Choice]:
        """At most `slots` choices, most urgent first, but see `side_by_side`."""
        self._catch_up(connection)
        if first_only:
            self._queue = deque(self.priced.for_everyone(self.pool, self._left(purse)))
        elif put_off and not self._queue and self._took > SLOW:  # the budget refused the batch: pass on to what follows
            self._queue = deque(side_by_side(self.priced.further(self.pool, slots), self._campaign.seconds()))
        elif self._is_due():
            self._look(connection, purse, put_off)
        if self.is_done:
            self._queue.clear()
        self.blocked, self._given = None, {}
        basket = _Basket(slots, self._left(purse), purse, self._known(slots))
        if not first_only:
            self._take_audits(basket, self._audit.due(connection, self._spent(purse)), put_off)
        self._take_queued(basket, places, put_off)
        return basket.choices

    def _take_audits(self, basket: _Basket, audits: Iterable[Purchase], put_off: Collection[int]) -> None:
        for purchase in audits:
            cost = float(self.pool.costs[purchase.of, purchase.rung])
            id_, position = int(self.pool.ids[purchase.of]), self._schema.paid[purchase.rung]
            if not basket.is_full and id_ not in basket.ids and id_ not in put_off and basket.holds(position, cost):
                basket.take(self._audited(purchase), cost)

    def _take_queued(self, basket: _Basket, places: Container[Position], put_off: Collection[int]) -> None:
        """Take the most urgent purchases that can be made now. A purchase that nobody may start now waits, and so do
        later ones of its candidate: a candidate that has seen a rung is not sent to one below."""
        pool, waits, waiting_rows = self.pool, list[Purchase](), set[int]()
        price = self._numeraire.price(self.priced.price) if self.priced.is_learnt else None  # one object for all
        while self._queue and not basket.is_full:
            purchase = self._queue.popleft()
            row, position, id_ = purchase.of, self._schema.paid[purchase.rung], int(pool.ids[purchase.of])
            cost = float(pool.costs[row, purchase.rung])
            if pool.out[row] or pool.closed[row, purchase.rung]:
                continue
            if not basket.holds(position, cost):
                self.blocked = self.blocked or self._too_dear(position, cost, basket)
            elif id_ in put_off:
                continue
            elif pool.pending[row] or id_ in basket.ids or position not in places or row in waiting_rows:
                waits.append(purchase)
                waiting_rows.add(row)
            else:
                self._given[id_, position] = purchase
                basket.take(self._choice(purchase, price), cost)
        self._queue.extendleft(reversed(waits))

    def _too_dear(self, position: Position, cost: float, basket: _Basket) -> str:
        label = self._built.rungs[position].spec.rung
        if basket.purse.remaining_jobs(position) == 0:
            return f"all places of {label} are used"
        return f"{label} would take {100 * cost:.2g} % of the budget, and {100 * max(basket.left, 0):.2g} % are left"

    def take_back(self, unplaced: Iterable[Choice], refused: Iterable[Choice]) -> None:
        """Purchases that no worker could take now stay the most urgent. Candidates whose reservation the budget does
        not hold are put off until the next look."""
        back = [self._given.get((choice.id, choice.position)) for choice in unplaced]
        self._queue.extendleft(purchase for purchase in reversed(back) if purchase is not None)
        put_off = {self._given[c.id, c.position].of for c in refused if (c.id, c.position) in self._given}
        if put_off:  # at once, for a queue of nothing else would say that no look is due
            self._queue = deque(purchase for purchase in self._queue if purchase.of not in put_off)

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
        wanted: Mask = open_ & (lacking | worth)
        return wanted

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
        self.priced.patience = Patience(self._campaign.seconds(), self._took * (1 / WAITING - 1))
        hidden = np.isin(self.pool.ids, list(put_off)) & ~self.pool.pending
        self.pool.pending |= hidden
        batch = self.priced.choose(self.pool, self._left(purse))
        self.pool.pending &= ~hidden
        self._queue = deque(side_by_side(batch, self._campaign.seconds()))
        self._wanted = None
        self._asked_at = time.monotonic()
        self._took, self._stale = self._asked_at - began, False
        news = self._audit.look(connection, self.priced, self._queue, self._spent(purse))
        fitted = self.priced.fits > self._written
        if fitted:
            self._written = self.priced.fits
            self._brings = self._worth()
            self._balanced = self._numeraire.balanced(self._campaign.drawn(), self._left_by_name(purse))
        if fitted or news:
            state = self._state() | ({"audit": news} if news else {})
            self.law_version = laws.write(connection, self._built.row.id, state)

    def _worth(self) -> dict[str, object]:
        """What the candidates are worth, and by rung what they would be worth without it."""
        worth, without = self.priced.worth_without(self.pool)
        labels = {j: self._built.rungs[self._schema.paid[j]].spec.rung for j in without}
        return {"worth": _digits(worth), "without": {labels[j]: _digits(less) for j, less in without.items()}}

    def _left_by_name(self, purse: BudgetTracker) -> dict[str, float]:
        """What may be spent by now, by allowance."""
        used, share = self._used(purse), self._share()
        return {
            allowance.name: max(share * allowance.limit - used[allowance.name], 0.0)
            for allowance in self._numeraire.allowances
        }

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
        pool = self.pool
        if not pool.arrived or not self._numeraire.allowances:
            return 1.0
        each = float(np.median(pool.costs[pool.open, -1])) if len(pool.open) else float(pool.costs[:, -1].max())
        return min(1.0, pool.arrived * each / SELECTIVE) if each > 0 else 1.0

    def _known(self, slots: int) -> list[Choice]:
        """What was answered elsewhere costs nothing."""
        pool = self.pool
        rows = [row for row in list(pool.known)[:slots] if not pool.out[row] and not pool.pending[row]]
        return [
            Choice(int(pool.ids[row]), self._schema.paid[pool.known[row]], FIRST, why="priced: known") for row in rows
        ]

    def _choice(self, purchase: Purchase, price: dict[str, float] | None) -> Choice:
        position = self._schema.paid[purchase.rung]
        label = self._built.rungs[position].spec.rung
        if math.isfinite(purchase.index):
            why = self._reason(purchase, label)
        elif purchase.rung in self._features() and not self.pool.closed[purchase.of, -1]:
            why = f"priced: {label} costs so little that everyone gets it"
        else:
            why = "priced: one of the first few, up the whole ladder, for the law to learn from"
        index = min(purchase.index, FIRST)
        return Choice(int(self.pool.ids[purchase.of]), position, index, why=why, law=self.law_version, price=price)

    def _audited(self, purchase: Purchase) -> Choice:
        position, index = self._schema.paid[purchase.rung], min(purchase.index, FIRST)
        why = f"{AUDIT}: the law passed it over; drawn with propensity {purchase.propensity:.3g}"
        if purchase.rung < len(self._schema.paid) - 1:
            why += ", and an objective rests on this rung"
        price = self._numeraire.price(self.priced.price)
        id_ = int(self.pool.ids[purchase.of])
        return Choice(id_, position, index, purchase.propensity, why, self.law_version, price)

    def _reason(self, purchase: Purchase, label: str) -> str:
        if purchase.valuation is None:
            return "priced"
        what = "chance of a hit" if self._schema.aims.kind == "hits" else "expected payoff"
        cost = float(self.pool.costs[purchase.of, purchase.rung])
        takes = f"{100 * cost:.2g} % of the budget" if self._numeraire.allowances else f"{cost:.3g} core-seconds"
        payoff, price = 100 * purchase.valuation.payoff, self.priced.price
        return f"priced: {what} {payoff:.3g} %, index {purchase.index:.3g} at price {price:.3g}; {label} takes {takes}"

    def _state(self) -> dict[str, object]:
        names = [allowance.name for allowance in self._numeraire.allowances]
        return {
            "columns": [[c.rung, c.property] for c in self._schema.columns],
            "weights": dict(zip(names, map(float, self._numeraire.weights), strict=True)),
            "failures": [round(float(p), 6) for p in self.pool.failures()],
            "value": self._brings,
            "priced": self.priced.state(),
        }


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
