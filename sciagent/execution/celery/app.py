"""The Celery application of a worker: its queues and one task.

Celery hands tokens to the threads of a worker and decides nothing else. The ledger records which job runs, who holds
its lease, its outcome and whether it is retried. Therefore tokens are acknowledged early, which is Celery's default,
and there are no results, retries or time limits. A token is never delivered again; a job is, if its lease expires.
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
ANSWER_SECONDS = 30.0  # time limit for each answer of the broker; long, since no user waits for a worker


def make_app(broker: Broker, queues: Sequence[str], slots: Slots) -> Celery:
    """Returns the Celery application of a worker. Raises UsageError if the extra `celery` is not installed."""
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
        worker_disable_prefetch=broker.is_redis,  # on RabbitMQ the consumer prefetches one message
        worker_enable_prefetch_count_reduction=False,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
    )

    app.task(slots.work, name=TASK, shared=False)
    app.finalize()
    return app
