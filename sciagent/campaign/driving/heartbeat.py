"""The heartbeat: a thread that renews the driver's lease and books wall time."""

from __future__ import annotations

import threading
import time

from sciagent.errors import LedgerAwayError, StaleLeaseError
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import DRIVER_LEASE_SECONDS, DriverLease
from sciagent.store.database.ledger import Ledger


class Heartbeat:
    """The thread that renews a lease four times per period. `lost` is set if another process drives the campaign."""

    def __init__(self, ledger: Ledger, lease: DriverLease) -> None:
        self.lost = threading.Event()
        self._ledger, self._lease = ledger, lease
        self._stop = threading.Event()
        self._last = time.monotonic()
        self._counts = True
        self._one_at_a_time = threading.Lock()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and books the last seconds of wall time."""
        self._stop.set()
        self._thread.join(timeout=30)
        self._once()

    def count(self, counts: bool) -> None:
        """Sets whether time from now on is booked as wall time; a pause is not."""
        self._once()
        self._counts = counts

    def _beat(self) -> None:
        while not self._stop.wait(DRIVER_LEASE_SECONDS / 4):
            self._once()

    def _once(self) -> None:
        with self._one_at_a_time:
            now = time.monotonic()
            try:
                with self._ledger.begin() as connection:
                    wall = now - self._last if self._counts else 0.0
                    campaigns.renew_driver(connection, self._lease, wall_seconds=wall)
                self._last = now
            except StaleLeaseError:
                self.lost.set()
                self._stop.set()
            except LedgerAwayError:
                return  # the next beat tries again, until the lease has expired
