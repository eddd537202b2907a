"""The candidate pool of a campaign, kept in step with the ledger: standings, answers of rungs, declared costs.

A candidate's row is its sequence number in the campaign, after the rows of an earlier campaign that the law learns
from. Rows are read again after a change in the ledger; all data in the pool come from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.file.schedulers import LotterySpec
from sciagent.campaign.pricing.observations import KNOWN, ObservationSchema
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.ladder import PaidIndex, Position
from sciagent.domain.quantities import Censoring
from sciagent.domain.states import Standing
from sciagent.scheduling.arrays import Array, Mask
from sciagent.scheduling.audit import lots
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.law.row_selection import order_of
from sciagent.scheduling.law.similarity import GrowingStructures
from sciagent.store.campaign_state import standings
from sciagent.store.results import candidates, laws, pooled
from sciagent.verification.cost import cost_or_none

CHUNK = 2000
BOUNDS = {Censoring.NONE: 0, Censoring.BELOW: -1, Censoring.ABOVE: 1}
SHARED = 2000  # most candidates of an earlier campaign that the law learns from
WORKED = (Standing.DROPPED, Standing.SETTLED, Standing.VETOED)
GOING = (Standing.OPEN, Standing.PENDING)
STARTED = (*WORKED, Standing.PENDING)  # standings in which the rung at the candidate's position was started


class LedgerPool(CandidatePool):
    """The candidates of one campaign as a scheduler sees them."""

    GROWING = (*CandidatePool.GROWING, "ids", "_counted")

    def __init__(
        self,
        built: Built,
        paid: Sequence[Position],
        schema: ObservationSchema | None,
        connection: Connection,
        learn_from: int | None = None,
    ) -> None:
        """paid: positions of the rungs that are bought, the terminal one last. schema: the answers to read; None: no
        answers, structures or costs are read. learn_from: ledger id of an earlier campaign that the law learns from,
        too."""
        self._built, self._paid, self._is_read = built, tuple(paid), schema is not None
        self._columns = () if schema is None else schema.columns
        """The answers to read."""
        self._deciding = set() if schema is None else {self._columns[aim.columns[-1]].at for aim in schema.aims.aims}
        k, c = len(paid), len(self._columns)
        rungs = tuple(column.at for column in self._columns)
        super().__init__(np.empty((0, c)), np.empty((0, k), dtype=bool), np.empty((0, k)), rungs)

        self.order = np.empty(0, dtype=np.uint64)
        self.ids: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """(n,) ledger ids of the rows."""
        self.known: dict[int, PaidIndex] = {}
        """A rung with reusable evidence, by row. All deciding rungs below it have answered."""
        self.declared: dict[str, Array] = {"core_seconds": np.empty((0, k))}
        """(n, k) declared amounts of the jobs, by resource."""
        self.structures = GrowingStructures()
        """Structures of the candidates, for their similarity."""
        self.lots = np.empty(0) if self._is_read or isinstance(built.spec.scheduler, LotterySpec) else None
        self.changed: list[int] = []
        """Rows that were written since the list was last emptied."""
        self._counted: Mask = np.empty((0, k), dtype=bool)
        self._touched: set[int] = set()
        self._first = 0
        if learn_from is not None:
            self._learn(connection, learn_from)
        self._first = len(self.ids)
        self.refresh(connection)

    @property
    def earlier(self) -> int:
        """Number of first rows that are candidates of an earlier campaign."""
        return self._first

    @property
    def arrived(self) -> int:
        """Number of candidates of this campaign."""
        return len(self.ids) - self._first

    def touch(self, candidate_ids: Iterable[int]) -> None:
        """Marks candidates whose rows in the ledger have changed."""
        self._touched.update(candidate_ids)

    def refresh(self, connection: Connection) -> int:
        """Reads new and touched candidates from the ledger; returns the number of rows read."""
        seen = 0
        while rows := standings.arrivals(connection, self._built.row.id, self.arrived, CHUNK):
            self._enter(connection, rows)
            seen += len(rows)
        touched, self._touched = sorted(self._touched), set()
        for start in range(0, len(touched), CHUNK):
            rows = standings.of(connection, self._built.row.id, touched[start : start + CHUNK])
            self._place(connection, rows)
            seen += len(rows)
        return seen

    def _enter(self, connection: Connection, rows: Sequence[standings.Stands]) -> None:
        """Adds new candidates, in order of their sequence numbers."""
        ids = [r.candidate_id for r in rows]
        self._enter_rows(ids)
        if self._is_read:
            going = [r.candidate_id for r in rows if r.standing not in WORKED or r.depth >= self._paid[0]]
            loaded = candidates.load(connection, going)
            self._describe([loaded.get(id_) for id_ in ids])
            self._order(connection, ids, loaded)
        elif self.lots is not None:
            keys = laws.keys(connection, ids)
            self.lots[len(self.ids) - len(ids) :] = lots(self._built.spec.seed, (keys[id_] for id_ in ids))
        self._place(connection, rows)

    def _enter_rows(self, ids: Sequence[int]) -> None:
        self.add(np.zeros((len(ids), len(self._paid))))
        self.ids[len(self.ids) - len(ids) :] = ids

    def _order(self, connection: Connection, ids: Sequence[int], loaded: Mapping[int, Candidate]) -> None:
        """Writes the order of the last added rows. ids: of these rows."""
        keys = {id_: candidate.key for id_, candidate in loaded.items()}
        if others := [id_ for id_ in ids if id_ not in keys]:
            keys |= laws.keys(connection, others)
        assert self.order is not None
        self.order[len(self.ids) - len(ids) :] = order_of(keys[id_] for id_ in ids)

    def _describe(self, loaded: Sequence[Candidate | None]) -> None:
        """Writes structures, lots and declared costs of the last added rows. loaded: None for candidates not loaded."""
        k, last = len(self._paid), len(self.ids)
        first = last - len(loaded)
        known_keys = {row: candidate.key for row, candidate in enumerate(loaded, first) if candidate is not None}
        assert self.lots is not None
        self.lots[list(known_keys)] = lots(self._built.spec.seed, known_keys.values())
        for resource, known in self.declared.items():
            self.declared[resource] = np.vstack([known, np.zeros((len(loaded), k))])
        for place, position in enumerate(self._paid):
            verifier = self._built.rungs[position].verifier
            for row, candidate in zip(range(first, last), loaded, strict=True):
                cost = None if candidate is None else cost_or_none(verifier, candidate)
                for resource, amount in (cost or Cost()).items():
                    if resource not in self.declared:
                        self.declared[resource] = np.zeros((last, k))
                    self.declared[resource][row, place] = amount
        subject = self._built.subject
        self.structures.add([subject.structure(subject.notation(each)) if each else None for each in loaded])

    def _place(self, connection: Connection, rows: Sequence[standings.Stands]) -> None:
        """Writes standings and answers of candidates."""
        if not rows:
            return
        at = {r.candidate_id: self._first + r.seq for r in rows}
        of = list(at.values())
        self.changed += of
        self.out[of] = [r.standing not in GOING for r in rows]
        self.pending[of] = [r.standing == Standing.PENDING for r in rows]
        self.score[of] = [math.nan if r.score is None else r.score for r in rows]
        passed = np.array([r.position + (r.standing in STARTED) for r in rows])
        self.closed[of] = np.array(self._paid) < passed[:, None]
        if self._is_read:
            asked = [r for r in rows if r.standing != Standing.DROPPED or r.position >= self._paid[0]]
            self._observe(connection, asked, at)
            self._observe_fast(connection, [r.candidate_id for r in asked], at)

    def _observe(self, connection: Connection, rows: Sequence[standings.Stands], at: dict[int, int]) -> None:
        """Writes the answers of paid rungs. at: rows in the pool, by ledger id."""
        for row in at.values():
            self.known.pop(row, None)
        ids = [r.candidate_id for r in rows]
        lacking: set[int] = set()  # rows without the answer of a deciding rung
        for place, position in zip(self.paid, self._paid, strict=True):
            answers = self._answers(connection, ids, position)
            for r in rows:
                row = at[r.candidate_id]
                if position < r.position or (position == r.position and r.standing in WORKED):
                    if r.candidate_id in answers or position == r.position:  # a skipped rung does not count
                        self._count(row, place, answers.get(r.candidate_id) is None)
                    self._write(row, position, answers.get(r.candidate_id))
                elif r.candidate_id not in answers:
                    lacking |= {row} if place in self._deciding else set()
                elif r.standing == Standing.OPEN and row not in lacking:
                    self.known.setdefault(row, place)

    def _observe_fast(self, connection: Connection, ids: Sequence[int], at: dict[int, int]) -> None:
        """Writes the answers of fast rungs. at: rows in the pool, by ledger id."""
        for position in {c.rung for c in self._columns if c.at == KNOWN}:
            answers = self._answers(connection, ids, position)
            for id_ in ids:
                self._write(at[id_], position, answers.get(id_))

    def _count(self, row: int, place: PaidIndex, has_failed: bool) -> None:
        """Counts, once per candidate and rung, that the rung has answered or failed."""
        if not self._counted[row, place]:
            self._counted[row, place] = True
            self.tried[place] += 1
            self.failed[place] += has_failed

    def _learn(self, connection: Connection, campaign_id: int) -> None:
        """Adds the candidates of an earlier campaign that a paid rung of this campaign has answered."""
        ids = standings.climbed(connection, campaign_id, SHARED)
        by_rung = {p: self._answers(connection, ids, p) for p in {c.rung for c in self._columns}}
        paid = {c.rung for c in self._columns if c.at != KNOWN}
        answered = [i for i in ids if any(i in by_rung[p] for p in paid)]
        loaded = candidates.load(connection, answered)
        self._enter_rows(answered)
        self._describe([loaded.get(i) for i in answered])
        self._order(connection, answered, loaded)
        self.out[:] = True
        for row, i in enumerate(answered):
            for position, answers in by_rung.items():
                self._write(row, position, answers.get(i))

    def _answers(
        self, connection: Connection, ids: Sequence[int], position: Position
    ) -> dict[int, pooled.Values | None]:
        rung = self._built.rungs[position]
        derived = [prop.settings_hash for prop in rung.spec.derived]
        return pooled.values_of(connection, ids, rung.verifier.computation, derived, rung.fits)

    def _write(self, row: int, position: Position, values: pooled.Values | None) -> None:
        """Writes a rung's answer for one candidate. values: pooled over all replicates; None: no answer."""
        for column, observed in enumerate(self._columns):
            if observed.rung == position:
                quantity = None if values is None else values.get(observed.property)
                if quantity is None:
                    self.write(row, column, np.nan)
                else:
                    self.write(row, column, quantity.value, quantity.uncertainty or 0.0, BOUNDS[quantity.censoring])
