"""Redis for Celery's workers, when anybody may have written into the queue: what is no message is dropped, and logged.

The library's own reader raises out of the worker's loop, which ends the worker.
"""

from __future__ import annotations

import logging
from typing import Any

from kombu.transport import redis

log = logging.getLogger(__name__)


class Channel(redis.Channel):  # type: ignore[misc]
    """Redis has already taken the message out of the queue when it is read: it cannot come back."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            log.warning("what is no message was dropped from a queue: %s", type(error).__name__)
            return None


class Transport(redis.Transport):  # type: ignore[misc]
    Channel = Channel
