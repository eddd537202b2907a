"""Redis transport of Celery's workers. It drops and logs malformed messages, since other programs may write them.

The library's own reader raises an error that ends the worker.
"""

from __future__ import annotations

import logging
from typing import Any

from kombu.transport import redis

log = logging.getLogger(__name__)


class Channel(redis.Channel):  # type: ignore[misc]
    """Drops malformed messages. Redis removes a message from the queue before it is read, so it cannot come back."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            log.warning("what is no message was dropped from a queue: %s", type(error).__name__)
            return None


class Transport(redis.Transport):  # type: ignore[misc]
    Channel = Channel
