"""What a worker tells the ledger about slots of its own that died with a job in hand."""

from __future__ import annotations

import logging
import queue
import threading
from functools import partial

from sciagent.domain.states import JobState
from sciagent.execution.messaging.wakeups import Wakeups
from sciagent.execution.worker.runner import patiently
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import offers

log = logging.getLogger(__name__)


class Deaths:
    """Reports in a thread of its own: the ledger may be away as well.

    A slot that was killed (by the kernel for its memory, by hand) took its job with it. Its worker knows at once, and
    knows that it was the slot alone: the job counts a kill, not a loss.
    """

    def __init__(self, ledger_url: str, wakeups: Wakeups) -> None:
        self._ledger_url = ledger_url
        self._wakeups = wakeups
        self._told: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def report(self, owner: str, name: str) -> None:
        """owner: of its leases. name: the queue whose token it had. Returns at once."""
        log.warning("slot %s died with a job in hand", owner)
        self._told.put((owner, name))
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="deaths", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while True:
            owner, name = self._told.get()
            try:
                queues = [name, *patiently(partial(self._write, owner))]  # its token went with it
            except Exception:
                log.exception("the death of %s was not written; its lease runs out", owner)
                continue
            for one in queues:
                self._wakeups.wake(one)

    def _write(self, owner: str) -> list[str]:
        """Queues in which its jobs wait again."""
        ledger = Ledger(self._ledger_url)
        try:
            with ledger.begin() as connection:
                found = offers.slot_died(connection, owner)
        finally:
            ledger.close()
        for one in found:
            log.warning("job %d of campaign %d has lost its slot; it is %s", one.job_id, one.campaign_id, one.state)
        return [one.queue for one in found if one.state is JobState.QUEUED]
