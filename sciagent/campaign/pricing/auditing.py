"""The audit of a campaign: verifies a random sample of the candidates that the law passes over.

The law is the model that predicts hits. A candidate's index is its expected payoff per cost; the price is the least
index that is worth a purchase. An open, evaluated candidate enters the audit when its index is below the price, with
the chance of a hit and the cost at that time. Its propensity is the probability that the audit draws it. Its lot is a
number in [0, 1) that depends only on the campaign's seed and the candidate's key; the candidate is drawn if the lot is
below the propensity. If the law chooses the candidate later, its job is no cost of the audit, but the lot stays. The
share of such candidates that was drawn before shows how many good candidates the audit draws (see
`report.analysis.audit_results`).

Changes are written into a row of `law` in the transaction of the decisions that depend on them, so that a new driver
has the same propensities. The audit's outlay is the cost of its decided jobs. No audit job starts while the outlay is
above the audit's share of the spend. Drawn candidates are verified in order of lot over propensity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import KNOWN, LedgerPool, ObservationSchema
from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.audit_of_dropped import lots, propensities
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.priced import Priced
from sciagent.scheduling.rules.priced_settings import PricedSpec
from sciagent.store.results import laws_and_audits

LEAST_RISE = 1.05  # a propensity is raised only by at least this factor, since each rise is written
SIGNIFICANT_DIGITS = 6  # significant digits of all numbers that are written and used
LEAST_SIZE = 1e-16  # smaller numbers are written with fewer digits


class Auditing:
    """The audit of one campaign in its driver. `log` is the audit as written in the ledger."""

    def __init__(self, built: Built, schema: ObservationSchema, pool: LedgerPool, connection: Connection) -> None:
        spec = built.spec.scheduler
        # without limits there are no hits, so the law cannot miss one
        there_are_hits = any(objective.accept is not None for objective in built.objectives)
        self.share = spec.audit if isinstance(spec, PricedSpec) and there_are_hits else 0.0
        """Share of the spend that the audit may take; 0: there is no audit."""
        self._built = built
        self._pool = pool
        self._terminal_rung = PaidIndex(len(schema.paid) - 1)
        deciding_rungs = {schema.columns[aim.columns[-1]].at for aim in schema.aims.aims}
        lower_rungs = sorted(deciding_rungs - {KNOWN, self._terminal_rung})
        self._hit_rungs = [*lower_rungs, self._terminal_rung]  # indices of the rungs that a hit needs
        self._place_of_rung = {built.rungs[position].id: place for place, position in enumerate(schema.paid)}
        self.log = laws_and_audits.audit_log(connection, built.row.id)
        self._members = set(self.log.ids)  # ledger ids of the candidates in the audit
        self._rows: dict[int, int] = {}  # rows in the pool, by ledger id
        self._n_rows_entered = 0  # number of first rows of the pool that `_rows` holds
        self._audit_jobs: list[tuple[int, int]] = []  # (candidate id, rung index) of audit jobs
        self._last_decision_id = 0  # id of the last decision that `_audit_jobs` includes
        # drawn candidates as `_all_drawn` returns them; None: to be computed again
        self._drawn: tuple[RowIndices, RowIndices, Array] | None = None

    def note_passed_over(
        self, connection: Connection, priced: Priced, batch: Iterable[Purchase], spent: float
    ) -> Mapping[str, Any]:
        """Adds candidates that the law has just passed over and raises propensities; returns the changes to write, or
        an empty mapping. batch: the law's current purchases. spent: amount in the unit of the pool's costs."""
        # before there is a law, it passes nothing over; before anything is spent, the audit has no budget
        if not self.share or not priced.is_learnt or not spent > 0:
            return {}
        purchases = list(batch)
        ids = self._pool.ids
        self._drawn = None
        chosen_rows = []
        for purchase in purchases:
            is_by_law = np.isfinite(purchase.index)  # the index is infinite for purchases from which the law is learnt
            if purchase.rung == self._terminal_rung and is_by_law:
                chosen_rows.append(purchase.row)
        chosen_chances = zip(ids[chosen_rows].tolist(), _chances(priced, chosen_rows), strict=True)
        chosen = [[id_, chance] for id_, chance in chosen_chances if id_ not in self.log.chosen]

        rows = self._passed_over(priced, {purchase.row for purchase in purchases})
        is_closed = self._pool.closed[rows][:, self._hit_rungs]
        costs = np.where(is_closed, 0.0, self._pool.costs[rows][:, self._hit_rungs]).sum(axis=1)
        row_chances = _chances(priced, rows)
        row_lots = self._lots(connection, rows)
        passed = []
        for id_, chance, cost, lot in zip(ids[rows].tolist(), row_chances, _rounded(costs), row_lots, strict=True):
            passed.append([id_, chance, cost, lot])

        # the candidates enter the log before propensities are raised, since these depend on all candidates in it
        changes: dict[str, Any] = {"passed": passed, "raised": [], "chosen": chosen}
        n_before = len(self.log.ids)
        self.log.add(changes)
        self._members.update(self.log.ids[n_before:])
        changes["raised"] = self._raised_propensities(spent)
        self.log.add({"passed": [], "chosen": [], "raised": changes["raised"]})
        return changes if any(changes.values()) else {}

    def purchases_due(self, connection: Connection, spent: float) -> list[Purchase]:
        """Returns purchases for the drawn candidates, in order of lot over propensity, until the audit's share of the
        spend is used. spent: amount in the unit of the pool's costs."""
        log = self.log
        pool = self._pool
        if not self.share or not log.ids:
            return []
        if self._drawn is None:
            self._drawn = self._all_drawn()
        places, rows, propensity = self._drawn
        is_over_or_running = pool.out[rows] | pool.pending[rows] | pool.closed[rows, self._terminal_rung]
        if pool.spared is not None:  # the terminal rung would not decide
            is_over_or_running |= pool.spared[rows, self._terminal_rung]
        waits = np.flatnonzero(~is_over_or_running)
        outlay = self._outlay(connection)
        purchases = list[Purchase]()
        for number in waits:
            if outlay >= self.share * spent:
                break
            row = int(rows[number])
            place = places[number]
            next_rung = next(rung for rung in self._hit_rungs if not pool.closed[row, rung])
            outlay += float(pool.costs[row, next_rung])
            index = log.p[place] / log.cost[place]  # chance of a hit over cost, as when the candidate was passed over
            purchases.append(Purchase(row, next_rung, index, float(propensity[number])))
        return purchases

    def _all_drawn(self) -> tuple[RowIndices, RowIndices, Array]:
        """Returns the places in the log, the rows in the pool and the propensities of the drawn candidates, in order of
        lot over propensity."""
        lot = np.array(self.log.lot)
        propensity = np.array(self.log.pi)
        places = np.flatnonzero(lot < propensity)
        places = places[np.argsort(lot[places] / propensity[places], kind="stable")]
        return places, self._rows_of([self.log.ids[place] for place in places]), propensity[places]

    def _passed_over(self, priced: Priced, wanted: set[int]) -> list[int]:
        """Returns the rows of candidates that the law has passed over and the audit does not know yet.

        wanted: rows that the law buys now.
        """
        pool = self._pool
        rows = pool.open[pool.open < len(priced.index)]
        rows = rows[(priced.index[rows] < priced.price) & ~pool.closed[rows, self._terminal_rung]]
        for rung in self._hit_rungs[:-1]:  # a candidate whose deciding rung was skipped cannot become a hit
            rows = rows[~pool.closed[rows, rung] | pool.answered(rung)[rows]]
        passed_over = []
        for row, candidate_id in zip(rows.tolist(), pool.ids[rows].tolist(), strict=True):
            if candidate_id not in self._members and row not in wanted and row not in pool.known:
                passed_over.append(row)
        return passed_over

    def _lots(self, connection: Connection, rows: list[int]) -> list[float]:
        """Returns the lots of the candidates; draws the lots that the pool lacks."""
        assert self._pool.lots is not None
        drawn = self._pool.lots[rows]
        lacking = np.flatnonzero(np.isnan(drawn))
        ids: list[int] = self._pool.ids[np.array(rows, dtype=np.intp)[lacking]].tolist()
        keys = laws_and_audits.candidate_keys(connection, ids)
        drawn[lacking] = lots(self._built.spec.seed, (keys[id_] for id_ in ids))
        return list(map(float, drawn))

    def _raised_propensities(self, spent: float) -> list[list[float]]:
        """Returns [place in the log, new propensity] for candidates whose propensity rises."""
        old = np.array(self.log.pi)
        if not len(old):
            return []
        budget = self.share * spent
        new = np.minimum(propensities(np.array(self.log.p), np.array(self.log.cost), budget, old), 1.0)
        rises = (new > LEAST_RISE * old) | ((new == 1) & (old < 1))
        rounded = np.maximum(_rounded(new[rises]), old[rises]).tolist()  # rounding must not lower a propensity
        return [list(entry) for entry in zip(np.flatnonzero(rises).tolist(), rounded, strict=True)]

    def _outlay(self, connection: Connection) -> float:
        """Returns the cost of the audit's jobs, in the unit of the pool's costs."""
        for decision in laws_and_audits.audit_draws(connection, self._built.row.id, self._last_decision_id):
            self._last_decision_id = decision.id
            if decision.action == "run":
                self._audit_jobs.append((decision.candidate_id, self._place_of_rung[decision.rung_id]))
        rows = self._rows_of([candidate_id for candidate_id, _ in self._audit_jobs])
        rungs = np.array([rung for _, rung in self._audit_jobs], dtype=np.intp)
        return float(self._pool.costs[rows, rungs].sum())

    def _rows_of(self, ids: list[int]) -> RowIndices:
        """Returns (n,) rows of the candidates in the pool. ids: ledger ids."""
        for row in range(self._n_rows_entered, len(self._pool.ids)):
            self._rows[int(self._pool.ids[row])] = row  # replaces the row of an earlier campaign
        self._n_rows_entered = len(self._pool.ids)
        return np.array([self._rows[id_] for id_ in ids], dtype=np.intp)


def _chances(priced: Priced, rows: list[int]) -> list[float]:
    """Returns (n,) expected payoffs, limited to [0, 1]; for the goal `hits` a payoff is the chance of a hit."""
    return _rounded(np.clip(priced.expected[rows], 0.0, 1.0))


def _rounded(values: Array) -> list[float]:
    """Returns the values with `SIGNIFICANT_DIGITS`: each an integer times or divided by an exact power of ten."""
    size = np.floor(np.log10(np.maximum(np.abs(values), LEAST_SIZE)))
    up = 10.0 ** np.maximum(SIGNIFICANT_DIGITS - 1 - size, 0)
    down = 10.0 ** np.maximum(size - SIGNIFICANT_DIGITS + 1, 0)
    rounded = np.rint(values * up / down) / up * down
    result: list[float] = np.where(rounded == 0, values, rounded).tolist()  # a positive cost must not become 0
    return result
