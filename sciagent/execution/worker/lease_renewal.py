"""The keeper: a thread that renews leases of running jobs, and ends jobs that were cancelled or lost their lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sciagent.errors import LedgerAwayError
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import leases
from sciagent.store.job_queue.leases import Claim

LOOK_SECONDS = 1.0  # between checks for cancelled jobs
BEAT_SECONDS = leases.LEASE_SECONDS / 4


@dataclass(eq=False)
class Held:
    """Jobs whose leases are renewed together."""

    claims: list[Claim]
    gone: dict[int, bool] = field(default_factory=dict)
    """Ids of jobs that were cancelled or whose lease was lost; the value is true if a person cancelled the job."""


class Keeper:
    """Renews the leases of all jobs of one process. The database may be away for as long as a lease lasts."""

    def __init__(self, ledger: Ledger, lease_seconds: float = leases.LEASE_SECONDS) -> None:
        self._ledger, self._lease = ledger, lease_seconds
        self._held: dict[Held, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._thread.start()

    @contextmanager
    def holding(self, claims: Sequence[Claim], end: Callable[[], None]) -> Iterator[Held]:
        """Renew the leases of these jobs during the `with` block. end: see `hold`."""
        held = Held(list(claims))
        self.hold(held, end)
        try:
            yield held
        finally:
            self.release(held)

    def hold(self, held: Held, end: Callable[[], None]) -> None:
        """Renew these leases until `release`. end: kills the jobs' process, from another thread. It is called at each
        check while one of the jobs is gone, since the process may not have started yet."""
        with self._lock:
            self._held[held] = end

    def release(self, held: Held) -> None:
        with self._lock:
            del self._held[held]

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _keep(self) -> None:
        beat, look = min(BEAT_SECONDS, self._lease / 4), min(LOOK_SECONDS, self._lease / 4)
        last = time.monotonic()
        while not self._stop.wait(look):
            with self._lock:
                mine = dict(self._held)
            claims = [claim for held in mine for claim in held.claims]
            if not claims:
                continue
            try:
                if time.monotonic() - last >= beat:
                    with self._ledger.begin() as connection:
                        leases.heartbeat(connection, claims, self._lease)
                    last = time.monotonic()
                with self._ledger.read() as connection:
                    gone = leases.not_mine(connection, claims)
            except LedgerAwayError:
                continue  # the next round tries again
            for held, end in mine.items() if gone else ():
                lost = {claim.job_id: gone[claim.job_id] for claim in held.claims if claim.job_id in gone}
                if lost:
                    held.gone.update(lost)
                    end()
