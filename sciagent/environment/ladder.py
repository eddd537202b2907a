"""The thread that drives a campaign while clients propose: it serves their turns and runs the ladder between them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sciagent.campaign.core.build import Built
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.proposing.sources import Source, TurnResult
from sciagent.campaign.rollouts.seeds import seed_source
from sciagent.domain.cost import Cost
from sciagent.domain.states import CampaignState
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.verification.sandbox.host import Worker

PATIENCE = 0.25  # longest wait for a job or a client, in seconds
CLOSED = "the environment was closed"


class SeedsThenClients:
    """The source that proposes the campaign's seeds, and then waits for clients."""

    patience = 10**9
    total: int | None = None
    fault: str | None = None

    def __init__(self, seeds: Source) -> None:
        self._seeds = seeds
        self.has_seeds = True
        """Whether seeds are left to propose."""

    @property
    def is_busy(self) -> bool:
        """Whether the campaign waits for more proposals: always, since clients may come."""
        return True

    @property
    def is_ready(self) -> bool:
        return self.has_seeds

    def prepare(self) -> bool:
        return self.has_seeds and self._seeds.prepare()

    def take(self, limit: int) -> TurnResult | None:
        taken = self._seeds.take(limit)
        if taken is None:
            self.has_seeds = False
            return TurnResult(0, Cost(), barren=False)
        return taken

    def close(self) -> None:
        self._seeds.close()


class LadderThread:
    """Drives a campaign in a thread of its own until it is stopped.

    serve: called in the thread before each step of the driver; it writes the turns that clients have sent, and returns
    whether there were any. leave: called in the thread once, before the driver ends its jobs or after it has failed,
    with the reason and with whether the driver can still write.
    """

    def __init__(
        self, built: Built, workers: int | None, serve: Callable[[Driver], bool], leave: Callable[[str, bool], None]
    ) -> None:
        self._built, self._workers, self._serve, self._leave = built, workers, serve, leave
        self._bell, self._is_left = threading.Event(), False
        self._driver: Driver | None = None
        self._source: SeedsThenClients | None = None
        self._started, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="ladder")
        self.changed = threading.Condition()
        """Notified after each step of the driver."""
        self.error: BaseException | None = None
        """The error that ended the thread."""
        self.is_resting = False
        """Whether the campaign has ended, so that no further job starts until a client proposes."""

    def start(self) -> None:
        """Starts the thread; returns once the seeds are proposed, or enough of them wait. Raises its error."""
        self._thread.start()
        self._started.wait()
        if self.error is not None:
            self._thread.join()
            raise self.error

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def ring(self) -> None:
        """Wakes the thread, since a client has sent something."""
        self._bell.set()

    def stop(self, now: bool = False) -> None:
        """Asks the thread to end; running jobs finish. now: they are ended, and run again later."""
        self._stopping.set()
        if (driver := self._driver) is not None:
            if now:
                driver.abort()
            else:
                driver.request_stop(CLOSED)
        self.ring()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            with Driver(self._built, self._workers, source=self._make_source) as driver:
                self._driver = driver
                if self._stopping.is_set():
                    driver.request_stop(CLOSED)
                self._drive(driver)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the threads of the clients
            self.error = error
            self._leave_once(f"the ladder failed: {error}", False)
        finally:
            self._driver = None
            self._started.set()
            with self.changed:
                self.changed.notify_all()

    def _make_source(self, built: Built, lease: DriverLease, worker: Worker, bell: threading.Event) -> Source:
        self._bell = bell
        self._source = SeedsThenClients(seed_source(built, lease, worker, bell))
        return self._source

    def _drive(self, driver: Driver) -> None:
        ended: CampaignState | None = None
        stopping = driver.session.stopping
        while ended is None or not stopping.is_set():
            if stopping.is_set():
                self._leave_once(driver.session.stop_reason)
            has_served = self._serve(driver)
            if ended is None or has_served:
                ended = driver.step(PATIENCE)
            else:  # the campaign has reached its goal or spent its budget
                driver.attend()
                self._bell.wait(PATIENCE)
                self._bell.clear()
            self.is_resting = ended is not None
            if ended is not None or not self._proposes_seeds(driver):
                self._started.set()
            with self.changed:
                self.changed.notify_all()
        self._leave_once(driver.session.stop_reason)

    def _proposes_seeds(self, driver: Driver) -> bool:
        """Returns whether the next step will propose seeds."""
        return self._source is not None and self._source.has_seeds and driver.intake.is_asking

    def _leave_once(self, why: str, can_write: bool = True) -> None:
        if not self._is_left:
            self._is_left = True
            self._leave(why, can_write)
