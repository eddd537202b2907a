"""The executor of Celery workers: sends a token for each offered job, and listens for jobs that have ended."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from sciagent.execution.executor import Executor
from sciagent.execution.messaging.notifications import Listener
from sciagent.execution.messaging.wakeups import Wakeups


class CeleryExecutor(Executor):
    """Wakes Celery workers. A broker may lose tokens, so workers also look for queued jobs every few seconds.

    broker_url: see `Broker.parse`, which raises UsageError.
    """

    def __init__(self, broker_url: str) -> None:
        self._wakeups = Wakeups(broker_url)
        self._listeners: list[Listener] = []

    def wake(self, slots_by_queue: Mapping[str, int]) -> None:
        for queue, n in slots_by_queue.items():
            self._wakeups.wake(queue, n)

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        self._listeners.append(Listener(self._wakeups.broker, campaign_id, bell))

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._wakeups.close()
