"""The Celery application: a queue for each tier, and one task.

Celery hands tokens to the threads of a worker. It decides nothing: which job runs, who holds it, what became
of it and whether it is tried again stands in the ledger. Hence tokens are acknowledged early, as is Celery's default (a
lease is the only redelivery), and there are no results, no retries and no time limits.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sciagent.errors import UsageError
from sciagent.execution.messaging.brokers import PREFIX, Broker
from sciagent.execution.messaging.tokens import TASK

if TYPE_CHECKING:
    from celery import Celery

    from sciagent.execution.celery.slots import Slots

log = logging.getLogger(__name__)
ANSWER_SECONDS = 30.0  # that a broker may take; nobody waits for a worker's


def make_app(broker: Broker, queues: Sequence[str], slots: Slots) -> Celery:
    """Raises UsageError without the extra `celery`."""
    try:
        from celery import Celery
    except ModuleNotFoundError:
        raise UsageError("Celery is not installed: pip install 'sciagent[celery]'") from None
    app = Celery("sciagent", set_as_current=False, autofinalize=True)
    app.conf.update(
        broker_connection_max_retries=None,
        broker_connection_retry_on_startup=True,
        broker_heartbeat=20,
        broker_transport="sciagent.execution.messaging.redis_transport:Transport" if broker.is_redis else None,
        broker_transport_options=broker.transport_options(ANSWER_SECONDS),
        broker_url=broker.url,
        broker_use_ssl=broker.encryption().get("ssl"),
        task_create_missing_queues=False,
        task_default_queue=PREFIX + queues[0],
        task_ignore_result=True,
        task_publish_retry=False,
        task_queues=[broker.queue(name) for name in queues],
        worker_consumer="sciagent.execution.celery.consumer:Consumer",
        worker_disable_prefetch=broker.is_redis,  # RabbitMQ: one message, see the consumer
        worker_enable_prefetch_count_reduction=False,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
    )

    app.task(slots.work, name=TASK, shared=False)
    app.finalize()
    return app
