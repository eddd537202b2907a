"""Drives a campaign in this process one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.driving.driver import Driver
from sciagent.domain.states_and_needs import CampaignState


class SteppedDrive:
    """Runs of a campaign in this process, one step at a time.

    A run ends with the campaign, at `close`, or with an error.
    """

    def __init__(self, opened: Callable[[], Built]) -> None:
        """opened: returns the campaign as the ledger has it now; called once for each run."""
        self._opened = opened
        self._driver: Driver | None = None

    @property
    def is_open(self) -> bool:
        """Whether this process is the campaign's driver."""
        return self._driver is not None

    def step(self, wait: float = 0.25) -> CampaignState | None:
        """Takes one step; the first one begins a run. Returns the state in which the run ended; None if it goes on.

        wait: longest time to wait for a job, in seconds.
        """
        driver = self._driver or Driver(self._opened()).__enter__()  # `leaving` exits it at the end or after an error
        self._driver = driver
        with ExitStack() as leaving:
            leaving.push(driver)
            leaving.callback(setattr, self, "_driver", None)
            ended = driver.step(wait)
            if ended is None:  # the driver is kept for the next step
                leaving.pop_all()
        return ended

    def close(self, now: bool = False) -> None:
        """Ends the run after its running jobs finish. now: kill them instead."""
        if self._driver is None:
            return
        if now:
            self._driver.abort()
        else:
            self._driver.request_stop("its notebook or script let go of it")
        while self.is_open:
            self.step()
