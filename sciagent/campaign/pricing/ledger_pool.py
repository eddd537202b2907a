"""The board of a campaign, kept in step with the ledger: who is open, what each rung said, what each job would take.

A candidate's row is its sequence number in the campaign, after the rows of an earlier campaign that the law learns
from. Rows are read again when something was written about them; nothing here is not in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.observations import KNOWN, Reading
from sciagent.chemistry.fingerprint import structure_of
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.states import Standing
from sciagent.scheduling.audit.draw import lots
from sciagent.scheduling.candidate_pool import Board
from sciagent.scheduling.law.growing import GrowingStructures
from sciagent.scheduling.law.replicates import pooled
from sciagent.store.campaign_state import standings
from sciagent.store.results import candidates, evidence
from sciagent.verification.cost import cost_or_none

Array = NDArray[np.float64]

CHUNK = 2000
SHARED = 2000  # candidates of an earlier campaign, at most
WORKED = (Standing.DROPPED, Standing.SETTLED, Standing.VETOED)
GOING = (Standing.OPEN, Standing.PENDING)
STARTED = (*WORKED, Standing.PENDING)  # at the rung where they stand


class Market:
    """Attributes: `board`; `ids`, (n,) ledger ids of its rows; `known`, rungs (places in `reading.paid`) whose answer
    is there already, by row; `declared`, (n, k) by resource: what jobs are declared to take; `structures`; `lots`, (n,)
    as the audit draws them, NaN of who was over when we looked; `changed`, rows that were written since somebody
    emptied it."""

    def __init__(self, built: Built, reading: Reading, connection: Connection, learn_from: int | None = None) -> None:
        """learn_from: ledger id of a campaign whose candidates the law learns from, too."""
        self._built, self.reading = built, reading
        k, c = len(reading.paid), len(reading.columns)
        self.board = Board(
            np.empty((0, c)), np.empty((0, k), dtype=bool), np.empty((0, k)), tuple(one.at for one in reading.columns)
        )
        self.ids: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.known: dict[int, int] = {}
        self.declared: dict[str, Array] = {"core_seconds": np.empty((0, k))}
        self.structures = GrowingStructures()
        self.lots: Array = np.empty(0)
        self._counted: NDArray[np.bool_] = np.empty((0, k), dtype=bool)
        self._touched: set[int] = set()
        self.changed: list[int] = []
        self._first = 0
        if learn_from is not None:
            self._learn(connection, learn_from)
        self._first = len(self.ids)
        self.refresh(connection)

    @property
    def arrived(self) -> int:
        """Candidates of this campaign."""
        return len(self.ids) - self._first

    def touch(self, candidate_ids: Iterable[int]) -> None:
        """Something was written about these."""
        self._touched.update(candidate_ids)

    def refresh(self, connection: Connection) -> int:
        """Take in who has arrived and what was written; returns how many rows were looked at."""
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
        """New rows, in the order of their sequence numbers."""
        going = [r.candidate_id for r in rows if r.standing not in WORKED or r.depth >= self.reading.paid[0]]
        made = candidates.load(connection, going)
        self._append([r.candidate_id for r in rows], [made.get(r.candidate_id) for r in rows])
        self._place(connection, rows)

    def _append(self, ids: Sequence[int], made: Sequence[Candidate | None]) -> None:
        k = len(self.reading.paid)
        first, last = len(self.ids), len(self.ids) + len(ids)
        self.ids = np.concatenate([self.ids, np.array(ids, dtype=np.int64)])
        self._counted = np.vstack([self._counted, np.zeros((len(ids), k), dtype=bool)])
        drawn = np.full(len(ids), np.nan)
        there = [place for place, one in enumerate(made) if one is not None]
        drawn[there] = lots(self._built.spec.seed, (one.key for one in made if one is not None))
        self.lots = np.concatenate([self.lots, drawn])
        self.board.add(np.zeros((len(ids), k)))
        for resource, known in self.declared.items():
            self.declared[resource] = np.vstack([known, np.zeros((len(ids), k))])
        for place, position in enumerate(self.reading.paid):
            verifier = self._built.rungs[position].verifier
            for row, candidate in zip(range(first, last), made, strict=True):
                cost = None if candidate is None else cost_or_none(verifier, candidate)
                for resource, amount in (cost or Cost()).items():
                    if resource not in self.declared:
                        self.declared[resource] = np.zeros((last, k))
                    self.declared[resource][row, place] = amount
        if self._built.spec.subject == "molecule":
            self.structures.add([structure_of(one.text) if one else None for one in made])

    def _place(self, connection: Connection, rows: Sequence[standings.Stands]) -> None:
        """Where candidates stand, and what was said of them so far."""
        if not rows:
            return
        paid, board = self.reading.paid, self.board
        at = {r.candidate_id: self._first + r.seq for r in rows}
        self.changed += at.values()
        of = list(at.values())
        board.out[of] = [r.standing not in GOING for r in rows]
        board.pending[of] = [r.standing == Standing.PENDING for r in rows]
        passed = np.array([r.position + (r.standing in STARTED) for r in rows])
        board.closed[of] = np.array(paid) < passed[:, None]
        for row in of if self.known else ():
            self.known.pop(row, None)
        asked = [r for r in rows if r.standing != Standing.DROPPED or r.position >= paid[0]]
        for place, position in enumerate(paid):
            found = self._answers(connection, [r.candidate_id for r in asked], position)
            for r in asked:
                row, one = at[r.candidate_id], found.get(r.candidate_id)
                answered = position < r.position or (position == r.position and r.standing in WORKED)
                if answered:
                    skipped = r.candidate_id not in found and position < r.position
                    if not self._counted[row, place] and not skipped:
                        self._counted[row, place] = True
                        board.tried[place] += 1
                        board.failed[place] += one is None
                    self._write(row, position, one)
                elif r.candidate_id in found and r.standing == Standing.OPEN and row not in self.known:
                    self.known[row] = place
        for position in {c.rung for c in self.reading.columns if c.at == KNOWN}:
            found = self._answers(connection, [r.candidate_id for r in asked], position)
            for r in asked:
                self._write(at[r.candidate_id], position, found.get(r.candidate_id))

    def _learn(self, connection: Connection, campaign_id: int) -> None:
        """The candidates of an earlier campaign that a paid rung of this one has answered, the latest first."""
        ids = standings.climbed(connection, campaign_id, SHARED)
        found = {p: self._answers(connection, ids, p) for p in {c.rung for c in self.reading.columns}}
        told = [i for i in ids if any(i in found[c.rung] for c in self.reading.columns if c.at != KNOWN)]
        made = candidates.load(connection, told)
        self._append(told, [made.get(i) for i in told])
        for row, i in enumerate(told):
            self.board.out[row] = True
            for position, answers in found.items():
                self._write(row, position, answers.get(i))

    def _answers(self, connection: Connection, ids: Sequence[int], position: int) -> dict[int, evidence.Values | None]:
        v = self._built.rungs[position].verifier
        return evidence.values_of(connection, ids, v.name, v.version, v.settings_hash)

    def _write(self, row: int, position: int, said: evidence.Values | None) -> None:
        """said: of all replicates, which are pooled."""
        for column, what in enumerate(self.reading.columns):
            if what.rung == position:
                value, error = np.nan, None
                if said and what.property in said:
                    value, error = pooled(*zip(*said[what.property], strict=True))
                self.board.write(row, column, value, error or 0.0)
