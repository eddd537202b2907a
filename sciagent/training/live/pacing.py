"""The moment at which the groups of a step are gathered: just before it is trained, or while the step before it is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Protocol

from sciagent.agent.policies.batches import BatchPolicy
from sciagent.training.live.gathering import GatheredStep, Gatherer
from sciagent.training.live.versions import Version

PolicyOf = Callable[[Version], BatchPolicy]


class StepSource(Protocol):
    """Gathers the steps of a run in turn."""

    next_by: Version | None
    """The version that samples the step after the last one that was returned; None: the one that there is then."""

    def gathered(self, number: int, now: Version) -> tuple[GatheredStep, Version]:
        """Returns a step, and the version that sampled it. now: the version before the step is trained.

        Raises Stopped if no further turn may begin.
        """

    def close(self) -> None: ...


class StepByStep:
    """Each step is sampled by the policy as it is."""

    next_by: Version | None = None

    def __init__(self, gatherer: Gatherer, policy_of: PolicyOf) -> None:
        self._gatherer, self._policy_of = gatherer, policy_of

    def gathered(self, number: int, now: Version) -> tuple[GatheredStep, Version]:
        return self._gatherer.gather(number, self._policy_of(now)), now

    def close(self) -> None:
        """Does nothing: no step is under way."""


class OneAhead:
    """While a step is trained, the next one is gathered in another thread, by the version before that training.

    There is one step under way at most, so that a step is never sampled by a version that is older than that. Which
    version samples a step does not depend on how fast anything is.
    """

    def __init__(
        self, gatherer: Gatherer, policy_of: PolicyOf, last: int, stopping: Event, next_by: Version | None
    ) -> None:
        """last: number of the last step. stopping: ends what is under way. next_by: as a checkpoint has kept it."""
        self._gatherer, self._policy_of, self._last, self._stopping = gatherer, policy_of, last, stopping
        self.next_by = next_by
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._under_way: Future[GatheredStep] | None = None

    def gathered(self, number: int, now: Version) -> tuple[GatheredStep, Version]:
        if self._under_way is None:
            self._begin(number, self.next_by or now)
        assert self._under_way is not None and self.next_by is not None  # by _begin, now or in the last call
        step, by = self._under_way.result(), self.next_by
        self.next_by = now
        if number < self._last:
            self._begin(number + 1, now)
        return step, by

    def _begin(self, number: int, by: Version) -> None:
        self.next_by = by
        self._under_way = self._thread.submit(self._gatherer.gather, number, self._policy_of(by))

    def close(self) -> None:
        """Ends the step that is under way before its next turn; a run that goes on takes it up."""
        if self._under_way is not None and not self._under_way.done():
            self._stopping.set()
            with suppress(Exception):  # Stopped, or an error that the run would have met in this step
                self._under_way.result()
        self._thread.shutdown()
