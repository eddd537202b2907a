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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from sciagent.errors import UsageError

if TYPE_CHECKING:
    from kombu import Connection, Message, Queue


log = logging.getLogger(__name__)
SCHEMES = ("redis", "rediss", "amqp", "amqps")
PREFIX = "sciagent."  # of every name in the broker, since other programs may use it too
ENDED = f"{PREFIX}ended"  # name of the exchange through which drivers hear that a job has ended
FIRST_PAUSE = 0.1  # seconds before the second attempt to connect; each further pause is twice as long
LONGEST_PAUSE = 5.0  # longest pause, in seconds
_QUEUE_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}", re.ASCII)
GOODBYE_SECONDS = 0.2  # longest wait for the server when a connection is closed
REDELIVERY_SECONDS = 120  # after which Redis offers a message again that its worker has not acknowledged
_KEEPALIVE = {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}  # finds a cut cable in 30 s


def is_queue_name(name: object) -> bool:
    """Whether this is a valid queue name: at most 60 lower-case letters, digits and underscores, a letter first."""
    return isinstance(name, str) and _QUEUE_NAME.fullmatch(name) is not None


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
        user = f"{parts.username}@" if parts.username else ""
        if parts.password:
            user = f"{parts.username or ''}:***@"
        port_suffix = f":{port}" if port else ""
        shown_place = f"{user}{host}{port_suffix}"
        return cls(url, shown=urlunsplit((parts.scheme, shown_place, parts.path, "", "")))

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
            "priority_steps": [0],  # one list per queue, since tokens have no priorities
            "visibility_timeout": REDELIVERY_SECONDS,
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
    """Close the connection after a short wait at most, since the server may not answer."""
    try:
        connection.collect(socket_timeout=GOODBYE_SECONDS)
    except Exception:  # each transport raises errors of its own, and the connection is given up anyway
        log.debug("closing a connection to the broker failed", exc_info=True)


def wrong_keys(channel: Any, queues: Iterable[str]) -> str:
    """Returns which keys in Redis hold something else than the tokens of these queues, and the way out; empty if none
    does, if the broker is not Redis, or if it does not answer. channel: of kombu. queues: names of the broker."""
    client = getattr(channel, "client", None)
    if client is None:
        return ""
    expected = {name: "list" for name in queues}
    expected |= {channel.unacked_key: "hash", channel.unacked_index_key: "zset"}
    expected |= {channel.keyprefix_queue % name: "set" for name in (ENDED, *queues)}
    wrong = {}
    try:
        for key, type_ in expected.items():
            held = client.type(key).decode()
            if held not in (type_, "none"):
                wrong[key] = f'the key "{key}" holds a {held} and not a {type_}'
    except Exception:  # the error that made the caller ask is reported anyway
        log.debug("the broker's keys could not be read", exc_info=True)
        return ""
    if not wrong:
        return ""
    return (
        f"{'; '.join(wrong.values())}. Another program wrote it; give sciagent a database of its own, or remove it: "
        f"redis-cli DEL {' '.join(wrong)}. Jobs and results are in the ledger, and none is lost"
    )


TASK = "sciagent.work"  # name of the Celery task that every token calls
MAX_BYTES = 4096  # longest body of a message that is read
_NO_CALLBACKS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def body(queue: str) -> list[Any]:
    """The message body: positional arguments, keyword arguments, callbacks."""
    return [[queue], {}, dict(_NO_CALLBACKS)]


def headers(queue: str) -> Mapping[str, Any]:
    """The headers that Celery needs, with a new id."""
    return {"lang": "py", "task": TASK, "id": str(uuid.uuid4()), "argsrepr": repr([queue]), "ignore_result": True}


def queue_named(message: Message) -> str:
    """Returns the queue that a token names. Raises ValueError if the message is not a token. Only plain JSON of at most
    MAX_BYTES is read, and nothing in it is evaluated."""
    given_headers = message.headers
    if not isinstance(given_headers, dict) or given_headers.get("task") != TASK:
        raise ValueError("it is not the task of a token")
    if message.content_type != "application/json":
        raise ValueError("it is not JSON")
    content = message.body
    if not isinstance(content, (str, bytes)) or len(content) > MAX_BYTES:
        raise ValueError(f"it has no body of at most {MAX_BYTES} bytes")
    try:
        entries = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("its body is not JSON") from None
    arguments: Any = None
    keyword_arguments: Any = None
    if isinstance(entries, list) and len(entries) == 3:  # as `body` makes it
        arguments = entries[0]
        keyword_arguments = entries[1]
    has_one_argument = isinstance(arguments, list) and len(arguments) == 1 and not keyword_arguments
    if not has_one_argument or not is_queue_name(arguments[0]):
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
    message._decoded_cache = None  # else kombu would return the old body
