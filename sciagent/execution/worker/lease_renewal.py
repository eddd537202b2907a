"""The keeper: a thread that keeps leases of running jobs alive, and hears when one is lost or cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sciagent.errors import LedgerAwayError
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import leases
from sciagent.store.job_queue.leases import Claim

LOOK_SECONDS = 1.0  # between looks for what was cancelled
BEAT_SECONDS = leases.LEASE_SECONDS / 4


class Held:
    """Jobs that are being run. gone: {job id: whether a person cancelled it}; otherwise the lease was lost."""

    def __init__(self, claims: Sequence[Claim], end: Callable[[], None]) -> None:
        self.claims, self.gone, self._end = list(claims), dict[int, bool](), end

    def lose(self, gone: dict[int, bool]) -> None:
        """Whoever runs them is told to end them, once."""
        first = not self.gone
        self.gone.update(gone)
        if first:
            self._end()


class Keeper:
    """Renews the leases of all slots of one process. The database may be away for as long as a lease lasts."""

    def __init__(self, ledger: Ledger, lease_seconds: float = leases.LEASE_SECONDS) -> None:
        self._ledger, self._lease = ledger, lease_seconds
        self._held: list[Held] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._thread.start()

    @contextmanager
    def holding(self, claims: Sequence[Claim], end: Callable[[], None]) -> Iterator[Held]:
        """Keep these leases. end: kills what runs under them, from another thread."""
        held = Held(claims, end)
        with self._lock:
            self._held.append(held)
        try:
            yield held
        finally:
            with self._lock:
                self._held.remove(held)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _keep(self) -> None:
        beat, look = min(BEAT_SECONDS, self._lease / 4), min(LOOK_SECONDS, self._lease / 4)
        last = time.monotonic()
        while not self._stop.wait(look):
            with self._lock:
                mine = list(self._held)
            if not mine:
                continue
            try:
                if time.monotonic() - last >= beat:
                    self._beat(mine)
                    last = time.monotonic()
                else:
                    self._look(mine)
            except LedgerAwayError:
                continue  # the database is busy or away: the next round tries again

    def _beat(self, mine: Sequence[Held]) -> None:
        with self._ledger.begin() as connection:
            leases.heartbeat(connection, [claim for one in mine for claim in one.claims], self._lease)
        self._look(mine)

    def _look(self, mine: Sequence[Held]) -> None:
        with self._ledger.read() as connection:
            gone = leases.not_mine(connection, [claim for one in mine for claim in one.claims])
        for one in mine:
            if lost := {claim.job_id: gone[claim.job_id] for claim in one.claims if claim.job_id in gone}:
                one.lose(lost)
