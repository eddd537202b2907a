"""The address of a broker is checked, and shown without its password."""

from __future__ import annotations

import pytest

from sciagent.errors import UsageError
from sciagent.execution.celery.broker_address_and_work_tokens import Broker


@pytest.mark.parametrize(
    "url",
    ["http://host", "host:6379", "redis://", "redis://host/name", "redis://host:99999", "amqp:///v", "sqs://k:s@h", ""],
)
def test_what_is_no_broker_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        Broker.parse(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://me:pa%2Fss@rabbit:5672/lab", "amqp://me:***@rabbit:5672/lab"),
        ("rediss://:pa@[::1]:6379/3", "rediss://None:***@[::1]:6379/3"),
        ("redis://valkey?password=pa", "redis://valkey"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    broker = Broker.parse(url)
    assert broker.shown == shown.replace("None", "")
    assert "pa" not in repr(broker).replace("passive", "") and broker.url == url
