"""The thread that drives the campaign of an environment while clients propose.

`LadderThread` serves the clients' requests and runs the ladder between them. `SeedsThenClients` is the source of the
campaign's proposals.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.proposing.source_contract_and_scripts import Source, TurnResult
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.states_and_needs import CampaignState
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.training.rollouts.campaign_rollouts import seed_source
from sciagent.verification.sandbox.host import Worker

STEP_SECONDS = 0.25  # longest wait for a job or a client in one step of the thread
CLOSED_REASON = "the environment was closed"


class SeedsThenClients:
    """The source that proposes the campaign's seeds, and then waits for clients."""

    patience = 10**9  # the campaign ends after this number of turns without a new candidate: practically never
    total: int | None = None
    """Number of all proposals; None, since clients may make any number."""
    fault: str | None = None

    def __init__(self, seeds: Source) -> None:
        self._seeds = seeds
        self.has_seeds = True
        """Whether the source may still have seeds to propose."""

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
        """Proposes up to `limit` seeds; never returns None, which would end the campaign."""
        taken = self._seeds.take(limit)
        if taken is None:
            self.has_seeds = False
            return TurnResult(n_proposals=0, cost=Cost(), barren=False)
        return taken

    def close(self) -> None:
        self._seeds.close()


class LadderThread:
    """Drives a campaign in a thread of its own until it is stopped."""

    def __init__(
        self, built: Built, workers: int | None, serve: Callable[[Driver], bool], leave: Callable[[str, bool], None]
    ) -> None:
        """The thread calls `serve` before each step of the driver, and `leave` once, before the driver ends its jobs
        or after it has failed.

        serve: writes the turns that clients have sent; returns whether there were any. leave: takes the reason, and
        whether the driver can still write.
        """
        self._built = built
        self._workers = workers
        self._serve = serve
        self._leave = leave
        self._bell = threading.Event()
        """Set to wake the thread."""
        self._has_left = False
        """Whether `leave` was called."""
        self._driver: Driver | None = None
        self._source: SeedsThenClients | None = None
        self._started = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ladder")
        self.changed = threading.Condition()
        """Notified after each step of the driver."""
        self.error: BaseException | None = None
        """The error that ended the thread."""
        self.is_resting = False
        """Whether the campaign has ended: no further job starts until a client proposes."""

    def start(self) -> None:
        """Starts the thread; returns once the seeds are proposed, or as many as may wait. Raises the thread's error."""
        self._thread.start()
        self._started.wait()
        if self.error is not None:
            self._thread.join()
            raise self.error

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def wake(self) -> None:
        """Wakes the thread, since a client has sent something."""
        self._bell.set()

    def stop(self, now: bool = False) -> None:
        """Asks the thread to end; running jobs finish. now: running jobs are ended too, and run again later."""
        self._stopping.set()
        driver = self._driver  # the thread may set it to None meanwhile
        if driver is not None:
            if now:
                driver.abort()
            else:
                driver.request_stop(CLOSED_REASON)
        self.wake()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            with Driver(self._built, self._workers, source=self._make_source) as driver:
                self._driver = driver
                if self._stopping.is_set():
                    driver.request_stop(CLOSED_REASON)
                self._drive(driver)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the threads of the clients
            self.error = error
            self._leave_once(f"the ladder failed: {error}", can_write=False)
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
        """Takes steps of the driver until the thread has to stop and the campaign has reached a final state."""
        final_state: CampaignState | None = None
        stopping = driver.session.stopping
        while final_state is None or not stopping.is_set():
            if stopping.is_set():
                self._leave_once(driver.session.stop_reason)
            has_served = self._serve(driver)
            if final_state is None or has_served:
                final_state = driver.step(STEP_SECONDS)
            else:  # the campaign has reached its goal or spent its budget; people may still give directives
                driver.attend()
                self._bell.wait(STEP_SECONDS)
                self._bell.clear()
            self.is_resting = final_state is not None
            if final_state is not None or not self._will_propose_seeds(driver):
                self._started.set()
            with self.changed:
                self.changed.notify_all()
        self._leave_once(driver.session.stop_reason)

    def _will_propose_seeds(self, driver: Driver) -> bool:
        """Returns whether the next step will propose seeds."""
        return self._source is not None and self._source.has_seeds and driver.intake.is_asking

    def _leave_once(self, why: str, can_write: bool = True) -> None:
        if not self._has_left:
            self._has_left = True
            self._leave(why, can_write)
