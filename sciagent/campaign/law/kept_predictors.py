"""Predictors of law entries that a process keeps, so that a page or a report waits for each of them once.

A predictor takes about one core-second for each thousand candidates, and half a GB for a law of two quantities of
MAX_PAST candidates. It is kept under the hash of its entry, which is computed from the content when it is made; an
entry never changes, so that a kept predictor is right for as long as the process lives.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future

from sqlalchemy.engine import Connection

from sciagent.campaign.law.law_entries import LawEntry
from sciagent.campaign.law.past_values import MAX_PAST, loaded_entry
from sciagent.campaign.law.predictions import LawPredictor
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.store.learning.law_entries import EntryRow

MOST_PAIRS = 2 * MAX_PAST**2
"""Pairs of candidates over all kept laws; beyond it, those that were asked for longest ago are forgotten."""


class KeptPredictors:
    """Predictors by the hash of their entry. Each is made once, in a thread of its own; several threads may ask."""

    def __init__(self, most_pairs: int = MOST_PAIRS) -> None:
        self._most_pairs = most_pairs
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()
        self._kept: OrderedDict[str, Future[LawPredictor]] = OrderedDict()
        self._n_pairs: dict[str, int] = {}

    def __len__(self) -> int:
        """Returns the number of laws that are kept or are being made."""
        return len(self._kept)

    def of(self, connection: Connection, row: EntryRow, patience: float | None = None) -> LawPredictor | None:
        """Returns the predictor of an entry; None if it is not made within `patience` seconds, and is made meanwhile.

        patience: None: for as long as it takes. Raises LedgerError if the content of the entry was changed.
        """
        with self._lock:
            future = self._kept.get(row.hash)
            if future is not None:
                self._kept.move_to_end(row.hash)
        if future is None:
            entry = loaded_entry(connection, row)
            future = self._begun(row.hash, entry)
        try:
            return future.result(patience)
        except TimeoutError:
            return None

    def _begun(self, hash_: str, entry: LawEntry) -> Future[LawPredictor]:
        """Returns the predictor that is being made of an entry, which another thread may have begun meanwhile."""
        with self._lock:
            future = self._kept.get(hash_)
            if future is not None:
                return future
            future = Future[LawPredictor]()
            self._kept[hash_] = future
            self._n_pairs[hash_] = sum(len(law.rows) ** 2 for law in entry.quantities)
            while len(self._kept) > 1 and sum(self._n_pairs.values()) > self._most_pairs:
                forgotten, _ = self._kept.popitem(last=False)
                del self._n_pairs[forgotten]
        threading.Thread(target=self._make, args=(hash_, entry, future), name="law", daemon=True).start()
        return future

    def _make(self, hash_: str, entry: LawEntry, future: Future[LawPredictor]) -> None:
        """Makes a predictor; one that cannot be made is not kept, and whoever waits for it gets the error."""
        try:
            with self._one_at_a_time:
                future.set_result(LawPredictor(entry, subject_of(entry.kind)))
        except Exception as error:  # noqa: BLE001 - it is raised again where the predictor is asked for
            with self._lock:
                self._kept.pop(hash_, None)
                self._n_pairs.pop(hash_, None)
            future.set_exception(error)


KEPT = KeptPredictors()
"""The predictors of this process."""
