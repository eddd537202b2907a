"""The priced ladder of a campaign: from the ledger to a board, from the law's purchases to choices, and back.

What was learnt is written as a row of `law` each time hyper-parameters were looked for or the audit has news; a driver
that takes over begins there. The budget is spent no faster than candidates come: with n of the N proposals made, n / N
of it.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Container, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import Purse
from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.auditing import Audit, Auditing
from sciagent.campaign.pricing.ledger_pool import Market
from sciagent.campaign.pricing.numeraire import Allowance, Numeraire
from sciagent.campaign.pricing.observations import Reading, read
from sciagent.campaign.spec.sources import PricedSpec
from sciagent.domain.ports import Choice
from sciagent.domain.valuation import Valuation
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.priced import SOME, Patience, Priced
from sciagent.store.campaign_state import campaigns
from sciagent.store.results import laws
from sciagent.store.results.audits import AUDIT

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]

FIRST = 1e5  # index of what is bought unasked; below what a person promotes
THOUGHT = 0.05  # of the time may go into looking at the candidates again while workers have something to do,
WAITING = 0.1  # and while they wait for it
DECIDING = 1e-3  # seconds that a decision takes at least, whatever it buys
TOGETHER = 10.0  # seconds of all workers within which it does not matter who is first
TIMES = ("core_seconds", "gpu_seconds")
SELECTIVE = 10  # without a limit on proposals so many times more are expected than could all be verified
WORTH = 1e-4  # payoff that no candidate promises: there is nothing left to find


class Pricing:
    """Of one campaign, in its driver; `wants` and `choose` are asked again and again."""

    def __init__(self, built: Built, reading: Reading, connection: Connection, purse: Purse) -> None:
        self._built, self._reading = built, reading
        learn_from = None
        if isinstance(built.spec.scheduler, PricedSpec) and built.spec.scheduler.law is not None:
            learn_from = campaigns.get(connection, built.spec.scheduler.law.source).id
        self.market = Market(built, reading, connection, learn_from)
        self._numeraire = Numeraire(_allowances(built, reading, purse))
        similarity = self.market.structures if built.spec.subject == "molecule" else None
        budget = 1.0 if self._numeraire.allowances else math.inf
        self.priced = Priced(reading.aims, similarity, built.spec.seed, budget, reading.trusted)
        self.law_version: str | None = None
        self._written = 0
        self._queue: deque[Purchase] = deque()
        self._given: dict[tuple[int, int], Purchase] = {}  # of it, the last time; by candidate and position
        self._stale, self._asked_at, self._took = True, 0.0, 0.0
        self._wanted: Mask | None = None  # who is worth a purchase, by row; None: all are to be counted again
        self._count = 0  # of them
        self._free: list[int] | None = None  # rungs that everyone gets; None: to be worked out again
        self._in_play: Mask = np.empty(0, dtype=bool)  # as of then
        self.come: float | None = None  # share of the candidates that are to come; None where nobody knows
        self._balanced: Array | None = None  # weights of the budgets from the next look on
        self._brings: dict[str, object] = {}  # what the rungs do, as of the last fit
        self.blocked = False  # something is worth buying, but not yet, or not any more, within the budget
        if (row := laws.last(connection, built.row.id)) is not None:
            self._restore(row)
        elif learn_from is not None and (row := laws.last(connection, learn_from)) is not None:
            self.priced.learn_from(row.state["priced"])
        self._audit = Auditing(built, reading, self.market, connection)
        self._cost()

    def touch(self, candidate_ids: Iterable[int]) -> None:
        """Something was written about these candidates."""
        self.market.touch(candidate_ids)

    def choose(
        self, connection: Connection, purse: Purse, slots: int, features_only: bool, places: Container[int]
    ) -> list[Choice]:
        """At most `slots` choices, most urgent first, but see `TOGETHER`. features_only: nothing that costs more than
        next to nothing. places: positions of rungs whose jobs somebody may take; what is for others waits, and so does
        what comes after it for the same candidate: who has seen a rung is not sent to one below."""
        self._catch_up(connection)
        found = self._known(slots)
        taken = {one.id for one in found}
        self.blocked = False
        if not features_only and self._is_due():
            self._look(connection, purse)
        elif features_only:
            self._queue = deque(self.priced.features(self.market.board, self._left(purse)))
        if self.is_done:
            self._queue.clear()
        waits: list[Purchase] = []
        waiting: set[int] = set()  # their rows
        self._given = {}
        left = self._left(purse)
        price = self._numeraire.price(self.priced.price) if self.priced.is_learnt else None  # one object for all
        for audit in () if features_only else self._audit.due(connection, self._spent(purse)):
            one = audit.purchase
            cost = float(self.market.board.costs[one.of, one.rung])
            room = cost <= left and purse.remaining_jobs(self._reading.paid[one.rung]) != 0
            if room and len(found) < slots and (id_ := int(self.market.ids[one.of])) not in taken:
                left -= cost
                taken.add(id_)
                found.append(self._audited(audit))
        while self._queue and len(found) < slots:
            one = self._queue.popleft()
            board, position = self.market.board, self._reading.paid[one.rung]
            id_ = int(self.market.ids[one.of])
            if board.out[one.of] or board.closed[one.of, one.rung]:
                continue
            cost = float(board.costs[one.of, one.rung])
            if cost > left or purse.remaining_jobs(position) == 0:
                self.blocked = True
                continue
            if board.pending[one.of] or id_ in taken or position not in places or one.of in waiting:
                waits.append(one)
                waiting.add(one.of)
                continue
            left -= cost
            taken.add(id_)
            self._given[id_, position] = one
            found.append(self._choice(one, price))
        self._queue.extendleft(reversed(waits))
        return found

    def take_back(self, unplaced: Iterable[Choice], refused: Iterable[Choice]) -> None:
        """Of the last choice. unplaced: nobody could take them now; they are the most urgent still. refused: the budget
        does not hold what they reserve; their candidates are put off until the next look."""
        back = [self._given.get((one.id, one.position)) for one in unplaced]
        self._queue.extendleft(one for one in reversed(back) if one is not None)
        put_off = {given.of for one in refused if (given := self._given.get((one.id, one.position))) is not None}
        if put_off:  # at once, for a queue of nothing else would say that no look is due
            self._queue = deque(one for one in self._queue if one.of not in put_off)

    def wants(self, connection: Connection, purse: Purse) -> int:
        """How many open candidates are worth a purchase, and one that may be made by now: while they are few, more are
        to be proposed."""
        self._catch_up(connection)
        if self._share() < 1:  # more may be spent once more have come
            of = self.market.board.open
            return int(self._is_wanted(of, self._left(purse)).sum())
        if self._wanted is None:
            self._wanted = self._is_wanted(np.arange(len(self.market.ids)))
            self._count = int(self._wanted.sum())
        return self._count

    def _is_wanted(self, of: Places, left: float = math.inf) -> Mask:
        """(n,) whether they are open and worth a purchase that costs no more than `left`."""
        board, priced, free = self.market.board, self.priced, self._features()
        open_ = ~(board.out[of] | board.pending[of])
        lacking = np.any(~board.closed[of][:, free], axis=1)
        paid = [j for j in range(board.costs.shape[1]) if j not in free]
        index = np.full(len(of), np.inf)  # of whom nobody has looked at
        looked = of < len(priced.index)
        index[looked] = np.nan_to_num(priced.index[of[looked]], nan=np.inf)
        worth = index >= max(priced.price, 1e-12)
        if math.isfinite(left):
            cost = np.where(board.closed[of][:, paid], np.inf, board.costs[of][:, paid])
            worth &= cost.min(axis=1, initial=np.inf) <= left
        found: Mask = open_ & (lacking | worth)
        return found

    def _features(self) -> list[int]:
        """The rungs that everyone gets: worked out when costs change, or who is in play."""
        if self._free is None:
            self._free, self._in_play = self.priced.free(self.market.board), self.market.board.in_play
        return self._free

    def is_preparing(self, connection: Connection) -> bool:
        """Whether a rung that everybody gets is still to answer for somebody."""
        self._catch_up(connection)
        board = self.market.board
        if not self._features():
            return False
        at_work = board.pending & ~board.closed[:, -1]
        return bool(self.priced.features(board, math.inf)) or bool(at_work.any())

    @property
    def is_done(self) -> bool:
        """Whether no open candidate promises anything any more: for `best`, none is expected to beat the best. Hits are
        looked for while there is a budget: a law that sees none may be wrong."""
        priced, of = self.priced, self.market.board.open
        if (
            self._reading.aims.kind == "hits"
            or not priced.is_learnt
            or not len(of)
            or len(priced.index) < len(self.market.board.out)
        ):
            return False
        return bool(np.nanmax(priced.expected[of], initial=0.0) < WORTH and not np.isnan(priced.expected[of]).any())

    def valuation(self, row: int) -> Valuation | None:
        """Of a row of the market as of the last look; None before."""
        if row >= len(self.priced.index) or math.isnan(self.priced.index[row]):
            return None
        p = self.priced
        return Valuation(float(p.value[row]), float(p.expected[row]), float(p.index[row]))

    def _catch_up(self, connection: Connection) -> None:
        before = self.market.arrived
        if self.market.refresh(connection):
            self._stale = True
        if self.market.arrived > before:
            self._cost()
            self._asked_at = -math.inf  # whoever is new is looked at
        self._recount()

    def _recount(self) -> None:
        """What is known of all candidates, after some rows have changed."""
        rows, self.market.changed = np.unique(np.array(self.market.changed, dtype=np.intp)), []
        if not len(rows) or self._free is None:
            return
        board = self.market.board
        in_play = ~board.out[rows] | np.any(board.closed[rows], axis=1)
        if np.any(in_play != self._in_play[rows]):
            self._free = self._wanted = None
        elif self._wanted is not None:
            now = self._is_wanted(rows)
            self._count += int(now.sum()) - int(self._wanted[rows].sum())
            self._wanted[rows] = now

    def _cost(self) -> None:
        """Expected costs of all jobs in the one unit, by what was learnt of each rung's."""
        factors = np.array([self._built.rungs[p].cost_model.factor for p in self._reading.paid])
        self.market.board.costs = self._numeraire.costs(self.market.declared, factors)
        self._free = self._wanted = None

    def _is_due(self) -> bool:
        if not self._queue:
            return True
        return self._stale and time.monotonic() - self._asked_at > self._took / THOUGHT

    def _look(self, connection: Connection, purse: Purse) -> None:
        """Ask the law anew."""
        began = time.monotonic()
        if self._balanced is not None:  # only now, so that price and costs are in one unit until the next look
            self._numeraire.weights, self._balanced = self._balanced, None
        self._cost()
        self.market.board.outlay = self._spent(purse) if self._numeraire.allowances else None
        self.priced.patience = Patience(self._seconds(), self._took * (1 / WAITING - 1))
        self._queue = deque(self._side_by_side(self.priced.choose(self.market.board, self._left(purse))))
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

    def _side_by_side(self, batch: list[Purchase]) -> list[Purchase]:
        """The same, and what goes out within the same few seconds in the order of the candidates' rows: one transaction
        then writes on few pages of the ledger, where the order of urgency would have it write on nearly all."""
        rung, of = np.array([(one.rung, one.of) for one in batch], dtype=np.intp).reshape(-1, 2).T
        spans = np.floor(self._seconds()[rung].cumsum() / TOGETHER)
        return [batch[place] for place in np.lexsort((of, spans)).tolist()]

    def _worth(self) -> dict[str, object]:
        """What the candidates are worth, and by rung what they would be worth without it."""
        worth, without = self.priced.worth_without(self.market.board)
        labels = {j: self._built.rungs[self._reading.paid[j]].spec.rung for j in without}
        return {"worth": _digits(worth), "without": {labels[j]: _digits(one) for j, one in without.items()}}

    def _seconds(self) -> Array:
        """(k,) how long a job of each rung keeps all workers busy; for ever where it takes more than their time."""
        rows = self.market.board.open
        rows = rows[:: math.ceil(len(rows) / SOME) or 1]
        factors = np.array([self._built.rungs[p].cost_model.factor for p in self._reading.paid])
        total = np.zeros(len(factors))
        for resource, declared in self.market.declared.items():
            each = np.median(declared[rows], axis=0) if len(rows) else np.zeros(len(factors))
            total += each * factors if resource in TIMES else np.where(each > 0, np.inf, 0.0)
        busy: Array = total / self._built.spec.workers + DECIDING
        return busy

    def _rebalance(self, purse: Purse) -> None:
        bought = self.priced.purchases
        rows = self.market.board.open
        rows = rows[rows < len(bought)]
        factors = np.array([self._built.rungs[p].cost_model.factor for p in self._reading.paid])
        left, drawn = self._left_by_name(purse), {}
        for one in self._numeraire.allowances:
            if one.rung is not None:
                drawn[one.name] = float(bought[rows, one.rung].sum())
            elif one.resource in self.market.declared:
                drawn[one.name] = float(
                    (bought[rows] * self.market.declared[one.resource][rows] * one.factors(factors)).sum()
                )
            else:
                drawn[one.name] = 0.0
        self._balanced = self._numeraire.balanced(drawn, left)

    def _left_by_name(self, purse: Purse) -> dict[str, float]:
        """Of each allowance what may be spent by now."""
        used, share = self._used(purse), self._share()
        return {one.name: max(share * one.limit - used[one.name], 0.0) for one in self._numeraire.allowances}

    def _used(self, purse: Purse) -> dict[str, float]:
        """Of each allowance what was spent or is spoken for."""
        used = purse.used()
        if "wall_seconds" in used:
            used["wall_seconds"] *= self._built.spec.workers
        return used

    def _spent(self, purse: Purse) -> float:
        """In shares of the whole budget; 0 without one: then nobody is passed over."""
        return self._numeraire.share(self._used(purse))

    def _left(self, purse: Purse) -> float:
        return self._numeraire.share(self._left_by_name(purse)) if self._numeraire.allowances else math.inf

    def _share(self) -> float:
        """Of the budget that may be spent by now: as of the candidates that will come."""
        if self.come is not None:
            return self.come
        arrived = self.market.arrived
        board = self.market.board
        if not arrived or not self._numeraire.allowances:
            return 1.0
        each = float(np.median(board.costs[board.open, -1])) if len(board.open) else float(board.costs[:, -1].max())
        return min(1.0, arrived * each / SELECTIVE) if each > 0 else 1.0

    def _known(self, slots: int) -> list[Choice]:
        """What was answered elsewhere costs nothing."""
        board = self.market.board
        rows = [row for row in list(self.market.known)[:slots] if not board.out[row] and not board.pending[row]]
        return [
            Choice(int(self.market.ids[row]), self._reading.paid[self.market.known[row]], FIRST, why="priced: known")
            for row in rows
        ]

    def _choice(self, one: Purchase, price: dict[str, float] | None) -> Choice:
        position, label = self._reading.paid[one.rung], self._built.rungs[self._reading.paid[one.rung]].spec.rung
        index = min(one.index, FIRST)
        if math.isinf(one.index):
            free = one.rung in self._features() and not self.market.board.closed[one.of, -1]
            why = (
                f"priced: {label} costs so little that everyone gets it"
                if free
                else ("priced: one of the first few, up the whole ladder, for the law to learn from")
            )
        else:
            why = self._reason(one, label)
        return Choice(int(self.market.ids[one.of]), position, index, why=why, law=self.law_version, price=price)

    def _audited(self, one: Audit) -> Choice:
        position, index = self._reading.paid[one.purchase.rung], min(one.purchase.index, FIRST)
        why = f"{AUDIT}: the law passed it over; drawn with propensity {one.propensity:.3g}"
        if one.purchase.rung < len(self._reading.paid) - 1:
            why += ", and an objective rests on this rung"
        price = self._numeraire.price(self.priced.price)
        id_ = int(self.market.ids[one.purchase.of])
        return Choice(id_, position, index, one.propensity, why, self.law_version, price)

    def _reason(self, one: Purchase, label: str) -> str:
        found = self.valuation(one.of)
        if found is None or found.p_hit is None:
            return "priced"
        what = "chance of a hit" if self._reading.aims.kind == "hits" else "expected payoff"
        if self._numeraire.allowances:
            share = 100 * float(self.market.board.costs[one.of, one.rung])
            cost = f"{label} takes {share:.2g} % of the budget"
        else:
            cost = f"{label} takes {self.market.board.costs[one.of, one.rung]:.3g} core-seconds"
        return (
            f"priced: {what} {100 * found.p_hit:.3g} %, index {one.index:.3g} at price {self.priced.price:.3g}; {cost}"
        )

    def _state(self) -> dict[str, object]:
        names = [one.name for one in self._numeraire.allowances]
        return {
            "columns": [[c.rung, c.property] for c in self._reading.columns],
            "weights": dict(zip(names, map(float, self._numeraire.weights), strict=True)),
            "failures": [round(float(p), 6) for p in self.market.board.failures()],
            "value": self._brings,
            "priced": self.priced.state(),
        }

    def _restore(self, row: laws.LawRow) -> None:
        weights: Mapping[str, float] = row.state["weights"]
        names = [one.name for one in self._numeraire.allowances]
        if set(names) == set(weights):  # else the budget was amended
            self._numeraire.weights = np.array([weights[name] for name in names], dtype=float)
        self._brings = row.state.get("value", {})
        self.priced.restore(row.state["priced"])
        self.law_version, self._written = row.version, self.priced.fits


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def pricing_of(built: Built, connection: Connection, purse: Purse) -> Pricing | None:
    """None where nothing is to be bought."""
    reading = read(built)
    return None if reading is None else Pricing(built, reading, connection, purse)


def _allowances(built: Built, reading: Reading, purse: Purse) -> tuple[Allowance, ...]:
    found = []
    for name, limit in purse.limits().items():
        if name == "wall_seconds":  # of all workers: engines run on one thread
            found.append(Allowance(name, limit * built.spec.workers, "core_seconds"))
        elif name.startswith("rung "):
            position = int(name.split()[1])
            if position in reading.paid:
                found.append(Allowance(name, limit, rung=reading.paid.index(position)))
        else:
            found.append(Allowance(name, limit, name))
    return tuple(found)
