"""The Celery application: a queue for each tier, one task, and no setting left to chance.

Celery hands tokens to the threads of a worker. It decides nothing: which job runs, who holds it, what became
of it and whether it is tried again stands in the ledger. Hence early acknowledgement (a lease is the only redelivery),
no results, no retries, no time limits of its own.
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

    from sciagent.execution.worker.slots import Slots

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
        accept_content=["json"],
        broker_connection_max_retries=None,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=4.0,
        broker_heartbeat=20,
        broker_transport="sciagent.execution.messaging.redis_transport:Transport" if broker.is_redis else None,
        broker_transport_options=broker.transport_options(ANSWER_SECONDS),
        broker_url=broker.url,
        broker_use_ssl=broker.encryption().get("ssl"),
        enable_utc=True,
        event_serializer="json",
        result_backend="disabled://",
        result_serializer="json",
        task_acks_late=False,
        task_create_missing_queues=False,
        task_default_queue=PREFIX + queues[0],
        task_ignore_result=True,
        task_publish_retry=False,
        task_queues=[broker.queue(name) for name in queues],
        task_reject_on_worker_lost=False,
        task_serializer="json",
        task_soft_time_limit=None,
        task_store_errors_even_if_ignored=False,
        task_time_limit=None,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_consumer="sciagent.execution.celery.consumer:Consumer",
        worker_disable_prefetch=broker.is_redis,  # RabbitMQ: one message, see the consumer
        worker_enable_prefetch_count_reduction=False,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
        worker_soft_shutdown_timeout=0.0,  # see the worker's own signals
    )

    def work(queue: str) -> None:
        slots.work(queue)

    app.task(name=TASK, shared=False)(work)
    app.finalize()
    return app
