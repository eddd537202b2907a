"""The keeper: a thread that renews leases of running jobs, and ends jobs that were cancelled or lost their lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sciagent.errors import LedgerAwayError, LedgerReplacedError
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import leases
from sciagent.store.job_queue.leases import Claim

CANCELLED_LOOK_SECONDS = 1.0  # between checks for cancelled jobs
BEAT_SECONDS = leases.LEASE_SECONDS / 4


@dataclass(eq=False)
class Held:
    """Jobs whose leases are renewed together."""

    claims: list[Claim]
    end: Callable[[], None]
    """Kills the jobs' process, from another thread. It is called at each check while one of the jobs is gone, since the
    process may not have started yet."""
    gone: dict[int, bool] = field(default_factory=dict)
    """Ids of jobs that were cancelled or whose lease was lost; the value is true if a person cancelled the job."""


class Keeper:
    """Renews the leases of all jobs of one process. The database may be away for as long as a lease lasts."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: set[Held] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._thread.start()

    def hold(self, claims: Sequence[Claim], end: Callable[[], None]) -> Held:
        """Renew the leases of these jobs until `release`. end: see `Held`."""
        held = Held(list(claims), end)
        with self._lock:
            self._held.add(held)
        return held

    def release(self, held: Held) -> None:
        with self._lock:
            self._held.remove(held)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _keep(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(min(CANCELLED_LOOK_SECONDS, BEAT_SECONDS)):
            with self._lock:
                mine = set(self._held)
            claims = [claim for held in mine for claim in held.claims]
            if not claims:
                continue
            try:
                if time.monotonic() - last >= BEAT_SECONDS:
                    with self._ledger.begin() as connection:
                        leases.heartbeat(connection, claims)
                    last = time.monotonic()
                with self._ledger.read() as connection:
                    gone = leases.not_mine(connection, claims)
            except LedgerAwayError:
                continue  # the next round tries again
            except LedgerReplacedError:  # no result can be written any more
                for held in mine:
                    held.end()
                continue
            for held in mine if gone else ():
                if lost := {claim.job_id: gone[claim.job_id] for claim in held.claims if claim.job_id in gone}:
                    held.gone.update(lost)
                    held.end()
