"""The wire format of a token, "there is work in QUEUE". Workers refuse all other messages.

It has the form of a Celery task (message protocol 2), so that Celery's workers accept it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sciagent.execution.celery.messages import is_queue_name

if TYPE_CHECKING:
    from kombu import Message

TASK = "sciagent.work"
MAX_BYTES = 4096
_NOTHING = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def body(queue: str) -> list[Any]:
    """The message body: positional arguments, keyword arguments, callbacks."""
    return [[queue], {}, dict(_NOTHING)]


def headers(queue: str) -> Mapping[str, Any]:
    """The headers that Celery needs, with a new id."""
    return {"lang": "py", "task": TASK, "id": str(uuid.uuid4()), "argsrepr": repr([queue]), "ignore_result": True}


def queue_named(message: Message) -> str:
    """The queue that a token names. Raises ValueError if the message is not a token. Only plain JSON of a few bytes
    is read, and nothing in it is evaluated."""
    headers_ = message.headers
    if not isinstance(headers_, dict) or headers_.get("task") != TASK:
        raise ValueError("it is not the task of a token")
    if message.content_type != "application/json":
        raise ValueError("it is not JSON")
    content = message.body
    if not isinstance(content, (str, bytes)) or len(content) > MAX_BYTES:
        raise ValueError(f"it has no body of at most {MAX_BYTES} bytes")
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("its body is not JSON") from None
    arguments = read[0] if isinstance(read, list) and len(read) == 3 else None
    if not isinstance(arguments, list) or len(arguments) != 1 or read[1] or not is_queue_name(arguments[0]):
        raise ValueError("it does not name a queue, and only that")
    return str(arguments[0])


def renew(message: Message, queue: str) -> None:
    """Replace the message by a new token, so that none of its headers (time limits, dates, callbacks) remains."""
    message.headers = headers(queue)
    message.body = json.dumps(body(queue))
    message.content_type, message.content_encoding = "application/json", "utf-8"
    for name in ("reply_to", "correlation_id"):
        message.properties.pop(name, None)
    message._decoded_cache = None
