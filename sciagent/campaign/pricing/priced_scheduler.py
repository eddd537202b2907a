"""The scheduler `priced` in a campaign: turns its purchases into choices, and stores its law in the ledger.

The law is the model that predicts the answers of rungs. The index of a purchase is its expected payoff per cost; the
price is the least index at which it is worth its cost. The audit verifies a random sample of the candidates that the
law passes over.

A row of `law` is written each time hyper-parameters were fitted or the audit has changed; a new driver continues from
that row. The budget is spent no faster than candidates come: with n of N proposals made, at most n / N of the budget.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.pricing.auditing import Auditing
from sciagent.campaign.pricing.pool_law_and_cost_unit import WALL_ALLOWANCE, PricedCampaign
from sciagent.campaign.pricing.purchasing_interface import Basket, Blocked, BlockedBy, Purchasing, in_order_of_start
from sciagent.domain.proposer_interfaces import Choice
from sciagent.domain.rung_positions_and_tiers import PaidIndex, Position
from sciagent.domain.states_and_needs import NOT_PROMOTED, CampaignState
from sciagent.domain.worth import DECIMALS, SHOWN_DECIMALS, Basis, chance_of
from sciagent.scheduling.array_types import Array, Mask, RowIndices
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.indices_to_recompute import MAX_ALL_EVALUATED
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.results import laws_and_audits
from sciagent.store.results.laws_and_audits import AUDIT

INDEX_WITHOUT_LAW = 1e5  # index of purchases made without the law; a person's promotion has a higher one
SHARE_OF_REEVALUATION = 0.05  # share of time for evaluating candidates again while workers are busy
SHARE_OF_EVALUATION = 0.1  # share of time for evaluating candidates while workers wait for it
SLOW_SECONDS = 1.0  # an evaluation longer than this, in seconds, is not repeated in one dispatch
CANDIDATES_PER_VERIFICATION = 10  # candidates expected, where proposals have no limit, for each that can be verified
N_FURTHER = 512  # purchases that are tried at a time when those above them in the ranking exceed the budget
LEAST_PAYOFF = 1e-4  # expected payoff below which a candidate is not worth a job
LEAST_INDEX = 1e-12  # payoff per cost below which a candidate is not worth a job, also while the price is 0


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
        self._n_fits_written = 0  # number of fits at the last row of `law`
        self._queue: deque[Purchase] = deque()  # purchases that are still to be chosen, the most urgent first
        # last chosen purchases, by candidate id and position of the rung
        self._chosen_purchases: dict[tuple[int, int], Purchase] = {}
        self._is_outdated = True  # whether the pool has changed since the last evaluation
        self._evaluated_at = 0.0  # `time.monotonic` at the end of the last evaluation
        self._evaluation_seconds = 0.0  # duration of the last evaluation
        self._wanted: Mask | None = None  # (n,) candidates worth a purchase; None: to be computed again
        self._n_wanted = 0
        self._startable_rungs: list[PaidIndex] = []  # rungs that could start more jobs when `_wanted` was computed
        # rungs that every candidate gets; None: to be computed again
        self._feature_rungs: list[PaidIndex] | None = None
        self._in_play: Mask = np.empty(0, dtype=bool)  # (n,) candidates in play when `_feature_rungs` was computed
        self._next_weights: Array | None = None  # weights of the allowances from the next evaluation on
        self._rung_worths: dict[str, object] = {}  # worth of the rungs at the last fit
        law_row = campaign.row
        if law_row is not None:
            self._rung_worths = law_row.state["value"]
            self.law_version = law_row.version
            self._n_fits_written = self.priced.fits
        self._audit = Auditing(self._built, self._schema, self.pool, connection)

    def choose(
        self, connection: Connection, slots: int, first_only: bool, places: Set[Position], put_off: Set[int]
    ) -> list[Choice]:
        """Returns at most `slots` choices, most urgent first, in the order of `in_order_of_start`."""
        self._read_ledger(connection)
        was_filled = self._refill(connection, slots, first_only, put_off)
        if self.is_done:
            self._queue.clear()
        self.blocked = None
        self._chosen_purchases = {}
        basket = Basket(slots=slots, left=self._remaining_share(), budget=self.budget, choices={})
        self._take_known(basket)
        if not first_only:
            self._take_audits(basket, self._audit.purchases_due(connection, self._spent_on_jobs()), put_off)
        self._take_queued(basket, places, put_off)
        if not (basket.choices or self._queue or self.is_done):
            if not was_filled and self._is_queue_outdated():
                self._evaluate(connection, put_off)
                self._take_queued(basket, places, put_off)
            if not (first_only or self.pool.pending.any()):
                self._take_cheaper(basket, places, put_off)
            if not (basket.choices or self._queue or self.blocked):
                self.blocked = self._unreleased(first_only, put_off)
        return list(basket.choices.values())

    def _is_queue_outdated(self) -> bool:
        """Whether another evaluation may find purchases that can start, after the queue held none.

        It may not while jobs run, which bring an evaluation of their own, or if the budget is the obstacle. A rung may
        have become full since the last evaluation; candidates then skip it.
        """
        is_lasting = self.blocked is not None and self.blocked.by is not BlockedBy.PLACES
        return not (is_lasting or self.pool.pending.any())

    def _refill(self, connection: Connection, slots: int, first_only: bool, put_off: Set[int]) -> bool:
        """Fills the queue if it is empty or out of date; returns whether it did. The parameters are as in `choose`."""
        self._note_full_rungs()
        if first_only:
            self._queue = deque(self.priced.for_everyone(self.pool, self._remaining_share()))
            return True
        if put_off and not self._queue and self._evaluation_seconds > SLOW_SECONDS:
            # the reservations of the last batch exceeded the budget; another evaluation would take too long
            further = self.priced.next_in_ranking(self.pool, slots)
            self._queue = deque(in_order_of_start(further, self._campaign.seconds_per_job()))
            return True
        seconds_between = self._evaluation_seconds / SHARE_OF_REEVALUATION
        is_due = self._is_outdated and time.monotonic() - self._evaluated_at > seconds_between
        if self._queue and not is_due:
            return False
        self._evaluate(connection, put_off)
        return True

    def _take_known(self, basket: Basket) -> None:
        """Adds choices that evidence in the ledger answers already, as long as there are slots; they are free."""
        pool = self.pool
        for row in list(pool.known)[: basket.slots]:
            if not (pool.out[row] or pool.pending[row]):
                position = self._schema.paid[pool.known[row]]
                choice = Choice(int(pool.ids[row]), position, index=INDEX_WITHOUT_LAW, why="priced: known")
                basket.take(choice, cost=0.0)

    def _take_audits(self, basket: Basket, audits: Iterable[Purchase], put_off: Set[int]) -> None:
        """Adds the audit's purchases that fit the basket."""
        for purchase in audits:
            if basket.is_full:
                return
            cost = float(self.pool.costs[purchase.row, purchase.rung])
            candidate_id = int(self.pool.ids[purchase.row])
            position = self._schema.paid[purchase.rung]
            if candidate_id in basket.choices or candidate_id in put_off or not basket.holds(position, cost):
                continue
            why = f"{AUDIT}: the law passed it over; drawn with propensity {purchase.propensity:.3g}"
            is_terminal = purchase.rung == len(self._schema.paid) - 1
            if not is_terminal:
                why += ", and an objective rests on this rung"
            price = self._numeraire.price(self.priced.price)
            basket.take(self._choice(purchase, why, price), cost)

    def _take_queued(self, basket: Basket, places: Set[Position], put_off: Set[int]) -> None:
        """Adds the most urgent purchases that can start now.

        A purchase that has to wait stays in the queue, and so do later ones of its candidate, since a candidate never
        returns to a lower rung. A purchase that exceeds the budget, or whose candidate is put off, leaves the queue.
        """
        pool = self.pool
        waiting_purchases = list[Purchase]()
        waiting_rows = set[int]()
        price = self._numeraire.price(self.priced.price) if self.priced.is_learnt else None  # shared by all choices
        while self._queue and not basket.is_full:
            purchase = self._queue.popleft()
            row = purchase.row
            needed_rung = pool.needed_rung(row, purchase.rung)
            if needed_rung is None:
                continue
            if needed_rung != purchase.rung:
                purchase = replace(purchase, rung=needed_rung)
            position = self._schema.paid[purchase.rung]
            id_ = int(pool.ids[purchase.row])
            cost = float(pool.costs[row, purchase.rung])
            if pool.out[row] or pool.closed[row, purchase.rung]:
                continue
            comes_after_another = pool.pending[row] or id_ in basket.choices or row in waiting_rows
            if not basket.holds(position, cost):
                self._note_blocked(position, cost, basket)
            elif id_ in put_off:
                continue
            elif comes_after_another or position not in places:
                waiting_purchases.append(purchase)
                waiting_rows.add(row)
            else:
                self._chosen_purchases[id_, position] = purchase
                basket.take(self._choice(purchase, self._reason(purchase), price), cost)
        self._queue.extendleft(reversed(waiting_purchases))

    def _note_blocked(self, position: Position, cost: float, basket: Basket) -> None:
        """Notes in `blocked` a purchase that exceeds the budget.

        The first purchase is kept for which more candidates would release enough of the budget. If there is none, the
        first of all purchases is kept.
        """
        if self.blocked is None or self.blocked.by is not BlockedBy.SLICE:
            obstacle = self._obstacle_to(position, cost, basket)
            if self.blocked is None or obstacle.by is BlockedBy.SLICE:
                self.blocked = obstacle

    def _take_cheaper(self, basket: Basket, places: Set[Position], put_off: Set[int]) -> None:
        """Goes down the last ranking for purchases that fit the rest of the budget and of the places, if the more
        urgent ones do not."""
        while not (basket.choices or self._queue) and self.blocked and self.blocked.by is not BlockedBy.SLICE:
            further = self.priced.next_in_ranking(self.pool, N_FURTHER)
            if not further:
                return
            self._queue.extend(further)
            self._take_queued(basket, places, put_off)

    def _obstacle_to(self, position: Position, cost: float, basket: Basket) -> Blocked:
        """Returns the limit that a job of the rung exceeds. cost: share of the whole budget."""
        label = self._built.rungs[position].spec.rung
        if basket.budget.remaining_jobs(position) == 0:
            return Blocked(BlockedBy.PLACES, f"all places of {label} are used")
        takes = f"{label} would take {100 * cost:.2g} % of the budget"
        left_percent = 100 * max(basket.left, 0)
        if cost <= self._remaining_share(share=1.0):
            return Blocked(BlockedBy.SLICE, f"{takes}, and {left_percent:.2g} % are released so far")
        return Blocked(BlockedBy.BUDGET, f"{takes}, and {left_percent:.2g} % are left")

    def _unreleased(self, first_only: bool, put_off: Set[int]) -> Blocked | None:
        """Returns an obstacle if a larger released share of the budget would pay for a job; None otherwise.

        Such a job is of a rung that everyone gets, or one that the law is to learn from.
        """
        pool = self.pool
        left = self._remaining_share()
        whole = self._remaining_share(share=1.0)  # left if the whole budget were released
        if not left < whole:
            return None
        open_rows = pool.open[~np.isin(pool.ids[pool.open], list(put_off))]
        features = self._startable(self._rungs_for_everyone())
        costs = pool.costs[open_rows][:, features]
        is_payable_later = (costs > left) & (costs <= whole)
        lacks_feature = ~pool.closed[open_rows][:, features] & is_payable_later
        if not lacks_feature.any():
            must_learn = not (first_only or self.priced.is_learnt or pool.pending.any())  # nothing else brings a law
            if not must_learn or not self._is_wanted(open_rows, left=whole).any():
                return None
        words = f"{100 * max(left, 0):.2g} % of the budget are released so far, which hold no job that is worth it"
        return Blocked(BlockedBy.SLICE, words)

    def reorder(self, connection: Connection, tasks: Mapping[int, Position]) -> dict[int, Choice] | None:
        """Evaluates the candidates of `tasks` again, together with all open candidates; returns the choices that stay.

        tasks: position of the rung, by candidate id. With n tasks of a rung, a task stays if it is among the n most
        urgent purchases of that rung. Returns None before there is a law, and while a candidate lacks a rung that
        everyone gets.
        """
        self._read_ledger(connection)
        if not self.priced.is_learnt or self.priced.for_everyone(self.pool, math.inf):
            return None
        pool = self.pool
        rung_at_position = {position: PaidIndex(index) for index, position in enumerate(self._schema.paid)}
        rows: list[int] = np.flatnonzero(np.isin(pool.ids, [*tasks])).tolist()
        rung_of_row: dict[int, PaidIndex] = {}
        for row in rows:
            candidate_id = int(pool.ids[row])
            rung_of_row[row] = rung_at_position[tasks[candidate_id]]
        rungs = list(rung_of_row.values())
        # for this evaluation the candidates count as open
        pool.pending[rows] = False
        pool.closed[rows, rungs] = False
        self._evaluate(connection, put_off=set())
        ranked = [*self._queue, *self.priced.next_in_ranking(pool, len(pool.open))]
        pool.pending[rows] = True
        pool.closed[rows, rungs] = True
        price = self._numeraire.price(self.priced.price)
        unfilled_tasks = Counter(rungs)  # tasks of each rung for which no purchase was found yet
        remaining_choices = dict[int, Choice]()
        self._queue.clear()  # the tasks that replace withdrawn ones come from the same ranking
        for purchase in ranked:
            if unfilled_tasks[purchase.rung] == 0:
                continue
            unfilled_tasks[purchase.rung] -= 1
            self._queue.append(purchase)
            if rung_of_row.get(purchase.row) == purchase.rung:
                choice = self._choice(purchase, self._reason(purchase), price)
                remaining_choices[choice.id] = choice
        return remaining_choices

    def note_withdrawn(self, connection: Connection, candidate_ids: Iterable[int]) -> None:
        """Reads the candidates of withdrawn tasks again; the ranking of `reorder` stays."""
        self.pool.mark_changed(candidate_ids)
        self._read_ledger(connection)
        self._is_outdated = False  # the ranking holds, so that no task is withdrawn and listed again at once

    def take_back(self, unplaced: Iterable[Choice], refused: Iterable[Choice]) -> None:
        """Puts purchases that no worker could take at the front of the queue again. Removes the candidates of refused
        choices from the queue until the next evaluation, since their reservation exceeds the budget."""
        unplaced_purchases = self._purchases_of(unplaced)
        self._queue.extendleft(reversed(unplaced_purchases))
        refused_rows = {purchase.row for purchase in self._purchases_of(refused)}
        if refused_rows:  # removed at once, since the next evaluation may wait until the queue is empty
            self._queue = deque(purchase for purchase in self._queue if purchase.row not in refused_rows)

    def _purchases_of(self, choices: Iterable[Choice]) -> list[Purchase]:
        """Returns the purchases behind the last choices; known answers and audits have none."""
        purchases = [self._chosen_purchases.get((choice.id, choice.position)) for choice in choices]
        return [purchase for purchase in purchases if purchase is not None]

    def wants(self, connection: Connection, is_idle: bool = False) -> int:
        """Returns the number of open candidates that wait for a job which the budget released so far can pay.

        For a proposer that learns from answers, these are all whose answer could still come, unless the campaign is
        idle. Otherwise they are those that are worth the job at the present price: a file is read on until they are
        enough, since a larger choice costs nothing.
        """
        self._read_ledger(connection)
        if self.is_done:
            return 0
        # more budget is released as more candidates come, so the answer changes with the spend and is not kept
        if is_idle or self._released_share() < 1:
            left = self._remaining_share() if self._released_share() < 1 else math.inf
            return int(self._is_wanted(self.pool.open, left, is_idle).sum())
        startable = self._startable(self.pool.paid)
        if self._wanted is None or startable != self._startable_rungs:
            self._startable_rungs = startable
            self._wanted = self._is_wanted(np.arange(len(self.pool.ids)))
            self._n_wanted = int(self._wanted.sum())
        return self._n_wanted

    def _is_wanted(self, rows: RowIndices, left: float = math.inf, is_idle: bool = False) -> Mask:
        """Returns (m,) whether each candidate is open and waits, as `wants` counts, for a job of at most `left`.

        rows: (m,) rows of the candidates in the pool. left: share of the whole budget. is_idle: as in `wants`.
        """
        pool = self.pool
        priced = self.priced
        features = self._rungs_for_everyone()  # their answers are features of the law
        is_open = ~(pool.out[rows] | pool.pending[rows])

        # it lacks a rung that everyone gets
        startable_features = self._startable(features)
        is_affordable = pool.costs[rows][:, startable_features] <= left
        lacks_feature = np.any(~pool.closed[rows][:, startable_features] & is_affordable, axis=1)

        # or it waits for its next rung; a candidate that was never evaluated counts, too
        least_index = LEAST_INDEX
        if is_idle or not self._built.proposer_learns:
            least_index = max(priced.price, LEAST_INDEX)
        index = np.full(len(rows), np.inf)
        is_evaluated = rows < len(priced.index)
        last_index = priced.index[rows[is_evaluated]]
        index[is_evaluated] = np.nan_to_num(last_index, nan=np.inf)
        others = self._startable([rung for rung in pool.paid if rung not in features])
        costs = np.where(pool.closed[rows][:, others], np.inf, pool.costs[rows][:, others])
        least_cost = costs.min(axis=1, initial=np.inf)
        is_worth_it = index >= least_index
        is_worth_it &= np.isfinite(least_cost) & (least_cost <= left)

        wanted: Mask = is_open & (lacks_feature | is_worth_it)
        return wanted

    def _note_full_rungs(self) -> None:
        """Tells the scheduler which rungs may start no more jobs."""
        self.priced.full = frozenset(self.pool.paid) - frozenset(self._startable(self.pool.paid))

    def _startable(self, rungs: Iterable[PaidIndex]) -> list[PaidIndex]:
        """Returns the rungs among these that may start more jobs."""
        return [rung for rung in rungs if self.budget.remaining_jobs(self._schema.paid[rung]) != 0]

    def _rungs_for_everyone(self) -> list[PaidIndex]:
        """Returns the rungs that every candidate gets; computed again when costs or the candidates in play change."""
        if self._feature_rungs is None:
            self._feature_rungs = self.priced.rungs_for_everyone(self.pool)
            self._in_play = self.pool.in_play
        return self._feature_rungs

    def is_preparing(self, connection: Connection) -> bool:
        """Whether a candidate still lacks the answer of a rung that every candidate gets."""
        self._read_ledger(connection)
        pool = self.pool
        features = self._rungs_for_everyone()
        if not features:
            return False
        runs_below_terminal = pool.pending & ~pool.closed[:, -1]  # the last paid rung is the terminal one
        lacking = ~pool.closed[pool.open][:, self._startable(features)]
        return bool(lacking.any() or runs_below_terminal.any())

    @property
    def is_done(self) -> bool:
        """Whether no open candidate is expected to improve on the best one. Always False for the goal `hits`, since a
        law that predicts no hit may be wrong."""
        priced = self.priced
        open_rows = self.pool.open
        if self._schema.aims.kind == "hits" or not priced.is_learnt or not len(open_rows):
            return False
        are_all_evaluated = len(priced.index) >= len(self.pool.out)
        if not are_all_evaluated:
            return False
        expected = priced.expected[open_rows]
        if np.isnan(expected).any():
            return False
        return bool(expected.max(initial=0.0) < LEAST_PAYOFF)

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
        too_dear = self._too_dear_for_all()
        if too_dear is not None:
            return CampaignState.BUDGET_SPENT, f"{too_dear}; {n} candidates still wait"
        full = [rung.spec.rung for rung in self._built.paid if self.budget.remaining_jobs(rung.rules.position) == 0]
        reason = f"no place is left at {' and '.join(full)}" if full else "each promises less than its jobs cost"
        return CampaignState.FINISHED, f"nothing is left to do; {n} candidates {NOT_PROMOTED}: {reason}"

    def _too_dear_for_all(self) -> str | None:
        """Returns a text if what is left of the budget verifies none of the open candidates; None otherwise."""
        costs = self.pool.costs[self.pool.open, self.pool.paid[-1]]
        left = self._remaining_share(share=1.0)
        if not len(costs) or costs.min() <= left:
            return None
        label = self._built.rungs[self._built.terminal].spec.rung
        least_percent = 100 * float(costs.min())
        left_percent = 100 * max(left, 0)
        takes = f"{label} would take {least_percent:.2g} % of the budget or more"
        return f"what is left of the budget holds no further job: {takes}, and {left_percent:.2g} % are left"

    def _read_ledger(self, connection: Connection) -> None:
        """Brings the pool up to date with the ledger."""
        n_before = self.pool.n_arrived
        n_read = self.pool.refresh(connection)
        if n_read:
            self._is_outdated = True
        if self.pool.n_arrived > n_before:
            self._price_jobs()
            self._evaluated_at = -math.inf  # new candidates are evaluated at once
        self._update_wanted()

    def _update_wanted(self) -> None:
        """Determines again which candidates are worth a purchase, after rows of the pool have changed."""
        rows = np.unique(np.array(self.pool.changed, dtype=np.intp))
        self.pool.changed = []
        if not len(rows) or self._feature_rungs is None:
            return
        pool = self.pool
        in_play = ~pool.out[rows] | np.any(pool.closed[rows], axis=1)  # as `CandidatePool.in_play`, for these rows
        if np.any(in_play != self._in_play[rows]):
            self._feature_rungs = None
            self._wanted = None
        elif self._wanted is not None:
            wanted = self._is_wanted(rows)
            self._n_wanted += int(wanted.sum()) - int(self._wanted[rows].sum())
            self._wanted[rows] = wanted

    def _price_jobs(self) -> None:
        """Computes the expected costs of all jobs again."""
        self._campaign.price_jobs()
        self._feature_rungs = None
        self._wanted = None

    def _evaluate(self, connection: Connection, put_off: Set[int]) -> None:
        """Evaluates all candidates except those put off, fills the queue, and writes a row of `law` if it is due."""
        began = time.monotonic()
        # weights change only here, so that price and costs keep one unit between evaluations
        if self._next_weights is not None:
            self._numeraire.weights = self._next_weights
            self._next_weights = None
        self._price_jobs()
        self.pool.outlay = self._spent_on_jobs() if self._numeraire.allowances else None
        self.priced.seconds = self._campaign.seconds_per_job()
        # a batch has to last so long that the next evaluation takes no more than `SHARE_OF_EVALUATION` of the time
        self.priced.lasts = self._evaluation_seconds * (1 / SHARE_OF_EVALUATION - 1)
        # candidates that are put off count as pending during the evaluation, so that nothing is bought for them
        hidden = np.isin(self.pool.ids, list(put_off)) & ~self.pool.pending
        self.pool.pending |= hidden
        batch = self.priced.choose(self.pool, self._remaining_share())
        self.pool.pending &= ~hidden
        self._queue = deque(in_order_of_start(batch, self._campaign.seconds_per_job()))
        self._wanted = None
        self._evaluated_at = time.monotonic()
        self._evaluation_seconds = self._evaluated_at - began
        self._is_outdated = False
        self._store_chances(connection)
        audit_changes = self._audit.note_passed_over(connection, self.priced, self._queue, self._spent_on_jobs())
        was_fitted = self.priced.fits > self._n_fits_written
        if was_fitted:
            self._n_fits_written = self.priced.fits
            self._rung_worths = self._worths()
            remaining = self._remaining_by_name(self._released_share())
            self._next_weights = self._numeraire.balanced(self._campaign.drawn(), remaining)
        if was_fitted or audit_changes:
            self.law_version = laws_and_audits.write(
                connection, self._built.row.id, self._law_state(audit_changes)
            ).version

    def write_chances(self, connection: Connection) -> None:
        self._read_ledger(connection)
        pool = self.pool
        priced = self.priced
        if self._schema.aims.kind != "hits" or not priced.is_learnt or len(pool.open) > MAX_ALL_EVALUATED:
            return
        priced.relearn(pool)  # from all answers so far, with the present hyper-parameters
        if priced.laws and len(pool.open):
            priced.evaluate(pool, pool.open)
            self._store_chances(connection)

    def _store_chances(self, connection: Connection) -> None:
        """Writes the chance and the expected utility of the candidates just evaluated, where the ledger shows others.

        Shown are a chance in whole percent, a utility with two digits, and whether they are the law's. Only candidates
        that have a worth and whose terminal rung is open count, and only where hits are counted.
        """
        priced = self.priced
        if self._schema.aims.kind != "hits" or not priced.is_learnt:
            return
        pool = self.pool
        rows = priced.valued
        is_shown = ~(np.isnan(pool.worth[rows, 0]) | pool.out[rows] | pool.closed[rows, -1])
        is_shown &= rows >= pool.n_earlier
        rows = rows[is_shown]
        utilities = priced.utility[is_shown]
        chances = np.array([chance_of(float(p)) for p in priced.expected[rows]], dtype=float)
        changed = chances != pool.worth[rows, 0]
        changed |= utilities.round(SHOWN_DECIMALS) != pool.worth[rows, 1].round(SHOWN_DECIMALS)
        changed |= ~pool.by_law[rows]
        rows = rows[changed]
        utilities = utilities[changed]
        pool.worth[rows, 0] = chances[changed]
        pool.worth[rows, 1] = utilities
        pool.worth[rows, 3] = priced.expected[rows]
        pool.by_law[rows] = True
        values = {}
        for row, utility in zip(rows.tolist(), utilities.tolist(), strict=True):
            values[int(pool.ids[row])] = {
                "p_hit": float(priced.expected[row]),
                "chance": int(pool.worth[row, 0]),
                "expected_utility": round(utility, DECIMALS),
                "basis": str(Basis.LAW),
            }
        candidate_standings.update_many(connection, self._built.row.id, values)

    def _worths(self) -> dict[str, object]:
        """Returns, as JSON, the value of the best candidates, and what their value would be without each rung."""
        worth, worth_by_omitted_rung = self.priced.worth_without(self.pool)
        by_label: dict[str, float] = {}
        for rung, worth_without_rung in worth_by_omitted_rung.items():
            label = self._built.rungs[self._schema.paid[rung]].spec.rung
            by_label[label] = _rounded(worth_without_rung)
        return {"worth": _rounded(worth), "without": by_label}

    def _law_state(self, audit_changes: Mapping[str, object]) -> dict[str, object]:
        """Returns the JSON for a row of `law`."""
        names = [allowance.name for allowance in self._numeraire.allowances]
        weights = self._numeraire.weights.tolist()
        state: dict[str, object] = {
            "columns": [[column.rung, column.property] for column in self._schema.columns],
            "weights": dict(zip(names, weights, strict=True)),
            "failures": [round(float(p), 6) for p in self.pool.failures()],
            "value": self._rung_worths,
            "factors": self._campaign.factors.tolist(),
            "priced": self.priced.state(),
        }
        if audit_changes:
            state["audit"] = audit_changes
        return state

    def _remaining_by_name(self, share: float) -> dict[str, float]:
        """Returns the amounts that may still be spent, by allowance. share: share of the budget that is released.

        Time is not released in shares, since it passes whether jobs run or not.
        """
        used = self._used()
        left = {}
        for allowance in self._numeraire.allowances:
            released = 1.0 if allowance.name == WALL_ALLOWANCE else share
            left[allowance.name] = max(released * allowance.limit - used[allowance.name], 0.0)
        return left

    def _used(self) -> dict[str, float]:
        """Returns the amounts spent or reserved, by allowance."""
        used = self.budget.used()
        if self._built.spec.budget.until is not None:  # then a weekly limit counts for all weeks together
            used |= self.budget.used_in_all()
        if WALL_ALLOWANCE in used:  # the allowance is the time of all workers together
            used[WALL_ALLOWANCE] *= self._built.spec.workers
        return used

    def _spent_on_jobs(self) -> float:
        """Returns what jobs took or have reserved, as a share of the whole budget; 0 without limits.

        Elapsed time is a clock and no spending, so of that allowance the time of jobs counts.
        """
        used = self._used()
        if WALL_ALLOWANCE in used:
            used[WALL_ALLOWANCE] = self.budget.taken("core_seconds")
        by_jobs = {}
        for allowance in self._numeraire.allowances:
            if self._campaign.is_taken_by_jobs(allowance):
                by_jobs[allowance.name] = used[allowance.name]
        return self._numeraire.share(by_jobs)

    def _remaining_share(self, share: float | None = None) -> float:
        """Returns the amount that jobs may take, as a share of the whole budget; infinite without limits.

        share: share of the budget that is released; None: the share that is released now.
        """
        if not self._numeraire.allowances:
            return math.inf
        if share is None:
            share = self._released_share()
        remaining = self._remaining_by_name(share)
        remaining_for_jobs = {}
        for allowance in self._numeraire.allowances:
            if self._campaign.is_taken_by_jobs(allowance):
                remaining_for_jobs[allowance.name] = remaining[allowance.name]
        return self._numeraire.share(remaining_for_jobs)

    def _released_share(self) -> float:
        """Returns the share of the budget that may be spent now: the share of all proposals that were made.

        Without a known total, it is the share of the candidates among which the scheduler can choose.
        """
        if self.proposed_share is not None:
            return self.proposed_share
        pool = self.pool
        if not pool.n_arrived or not self._numeraire.allowances:
            return 1.0
        if len(pool.open):
            verification_cost = float(np.median(pool.costs[pool.open, -1]))
        else:
            verification_cost = float(pool.costs[:, -1].max())
        if verification_cost <= 0:
            return 1.0
        # a cost is a share of the budget, so the budget holds 1 / verification_cost verifications
        return min(1.0, pool.n_arrived * verification_cost / CANDIDATES_PER_VERIFICATION)

    def _choice(self, purchase: Purchase, why: str, price: dict[str, float] | None) -> Choice:
        return Choice(
            int(self.pool.ids[purchase.row]),
            self._schema.paid[purchase.rung],
            index=min(purchase.index, INDEX_WITHOUT_LAW),
            propensity=purchase.propensity,
            why=why,
            law=self.law_version,
            price=price,
        )

    def _reason(self, purchase: Purchase) -> str:
        label = self._built.rungs[self._schema.paid[purchase.rung]].spec.rung
        if not math.isfinite(purchase.index):  # the law did not choose it
            if purchase.rung in self._rungs_for_everyone() and not self.pool.closed[purchase.row, -1]:
                return f"priced: {label} costs so little that everyone gets it"
            return "priced: one of the first few, up the whole ladder, for the law to learn from"
        if purchase.valuation is None:
            return "priced"
        what = "chance of a hit" if self._schema.aims.kind == "hits" else "expected payoff"
        cost = float(self.pool.costs[purchase.row, purchase.rung])
        takes = f"{100 * cost:.2g} % of the budget" if self._numeraire.allowances else f"{cost:.3g} core-seconds"
        payoff = 100 * purchase.valuation.payoff
        price = self.priced.price
        return f"priced: {what} {payoff:.3g} %, index {purchase.index:.3g} at price {price:.3g}; {label} takes {takes}"


def _rounded(value: float) -> float:
    """Returns the value with six significant digits."""
    return float(f"{value:.6g}")
