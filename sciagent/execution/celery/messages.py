"""The messages of workers: the broker with its queues, and the token "there is work in QUEUE".

Connections to the broker have time limits. Workers refuse every message that is no token.

A token has the form of a Celery task (message protocol 2), so that Celery's workers accept it.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from sciagent.errors import UsageError

if TYPE_CHECKING:
    from kombu import Connection, Message, Queue


log = logging.getLogger(__name__)
SCHEMES = ("redis", "rediss", "amqp", "amqps")
PREFIX = "sciagent."  # of every name in the broker, since other programs may use it too
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0  # seconds between attempts to connect; each pause doubles
_QUEUE = re.compile(r"[a-z][a-z0-9_]{0,59}", re.ASCII)
_KEEPALIVE = {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}  # finds a cut cable in 30 s


def is_queue_name(name: object) -> bool:
    """Whether this is a valid queue name: at most 60 lower-case letters, digits and underscores, a letter first."""
    return isinstance(name, str) and _QUEUE.fullmatch(name) is not None


@dataclass(frozen=True)
class Broker:
    """The address of a message broker."""

    url: str = field(repr=False)
    """The address. It may hold a password, so `repr` does not show it."""
    shown: str
    """The address without the password, for messages."""

    @classmethod
    def parse(cls, url: str) -> Broker:
        """Read a URL. Raises UsageError for an unknown scheme, a missing host, a bad port or database number."""
        example = "redis://HOST:6379/0, rediss://…, amqp://USER:PASSWORD@HOST:5672/VHOST or amqps://…"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise UsageError(f"the broker's URL cannot be read; give {example}") from None
        if parts.scheme not in SCHEMES:
            raise UsageError(f'"{parts.scheme[:20]}" is no broker that sciagent knows; give {example}')
        if not parts.hostname:
            raise UsageError(f"the broker's URL names no host; give {example}")
        if parts.scheme.startswith("redis") and not re.fullmatch(r"/?\d{0,4}", parts.path, re.ASCII):
            raise UsageError("the path of a Redis URL is the number of a database, as in redis://HOST:6379/0")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        user = f"{parts.username or ''}:***@" if parts.password else f"{parts.username}@" if parts.username else ""
        place = f"{user}{host}" + (f":{port}" if port else "")
        return cls(url, urlunsplit((parts.scheme, place, parts.path, "", "")))

    @property
    def is_redis(self) -> bool:
        return self.url.startswith("redis")

    def queue(self, name: str) -> Queue:
        """The broker's queue for tokens of queue `name`; on RabbitMQ a quorum queue, which survives a node's loss.
        Raises ValueError if `name` is not a valid queue name."""
        from kombu import Queue

        if not is_queue_name(name):
            raise ValueError(f"{name!r:.80} is no name of a queue")
        arguments = {} if self.is_redis else {"x-queue-type": "quorum"}
        return Queue(PREFIX + name, routing_key=PREFIX + name, durable=True, queue_arguments=arguments)

    def transport_options(self, patience: float) -> Mapping[str, Any]:
        """Options for kombu and Celery. patience: seconds allowed for connecting, and for each answer."""
        if not self.is_redis:
            return {"read_timeout": patience, "write_timeout": patience, "confirm_publish": True}
        return {
            "socket_connect_timeout": patience,
            "socket_timeout": patience,
            "socket_keepalive": True,
            "socket_keepalive_options": _KEEPALIVE,
            "priority_steps": [0],
            "visibility_timeout": 120,
        }

    def connection(self, patience: float, heartbeat: int = 0) -> Connection:
        """A connection that is not open yet. heartbeat: seconds, on AMQP only."""
        import kombu

        return kombu.Connection(
            self.url,
            connect_timeout=patience,
            transport_options=self.transport_options(patience),
            heartbeat=0 if self.is_redis else heartbeat,
            **self.encryption(),
        )

    def encryption(self) -> Mapping[str, Any]:
        """TLS options: the server's certificate is always checked, whatever a library's default is."""
        if self.url.startswith("rediss"):
            return {"ssl": {"ssl_cert_reqs": ssl.CERT_REQUIRED}}
        if self.url.startswith("amqps"):
            return {"ssl": {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": urlsplit(self.url).hostname}}
        return {}


def close_quietly(connection: Connection) -> None:
    """Close without waiting for the server, which may not answer."""
    try:
        connection.collect(socket_timeout=0.2)
    except Exception:  # each transport raises errors of its own, and the connection is given up anyway
        log.debug("closing a connection to the broker failed", exc_info=True)


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
    message.content_type = "application/json"
    message.content_encoding = "utf-8"
    for name in ("reply_to", "correlation_id"):
        message.properties.pop(name, None)
    message._decoded_cache = None
