"""A real RabbitMQ for the tests: the system's, as a node of its own, with ports, folders and cookie of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import amqp
import kombu

from tests.support.servers.process import Broker, NoServerError, bare_environment, end, free_port, spawn, wait_until

URL_VARIABLE = "SCIAGENT_TEST_RABBITMQ_URL"  # a server that runs already; its user must be allowed to make queues
SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # what Debian's wrapper, which wants its own user, would run
MISSING = (
    "these tests need a RabbitMQ server: `apt-get install rabbitmq-server` (its service need not run), or set "
    f"{URL_VARIABLE} to a running one"
)


def script() -> Path:
    """The server's start script. Raises NoServerError."""
    on_path = shutil.which("rabbitmq-server")
    found = [path for path in (SCRIPT, Path(on_path) if on_path else SCRIPT) if path.exists()]
    if not found or shutil.which("epmd") is None:
        raise NoServerError(MISSING)
    return found[0]


class RabbitMQ(Broker):
    """One node of our own. What it was told outlives `kill` and `stop`: quorum queues are on disk."""

    def __init__(self, script: Path) -> None:
        self._script = script
        self._base = Path(tempfile.mkdtemp(prefix="sci-rabbit-"))
        self._names: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self._names_port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        self._write_settings()

    def _write_settings(self) -> None:
        settings = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "log.console": "true",
            "log.console.level": "warning",
            "log.file": "false",
            "disk_free_limit.absolute": "50MB",
            "vm_memory_high_watermark.absolute": "1GB",
        }
        (self._base / "rabbitmq.conf").write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        (self._base / "enabled_plugins").write_text("[].\n")
        (self._base / "nothing").write_text("")

    def _environment(self) -> dict[str, str]:
        base = self._base
        return bare_environment(
            base,
            ERL_EPMD_PORT=str(self._names_port),
            ERL_EPMD_ADDRESS="127.0.0.1",
            ERL_CRASH_DUMP=str(base / "dump"),
            RABBITMQ_NODENAME=f"sciagent{self.port}@localhost",
            RABBITMQ_NODE_PORT=str(self.port),
            RABBITMQ_DIST_PORT=str(free_port()),
            RABBITMQ_MNESIA_BASE=str(base / "data"),
            RABBITMQ_LOG_BASE=str(base / "logs"),
            RABBITMQ_CONFIG_FILE=str(base / "rabbitmq.conf"),
            RABBITMQ_ENABLED_PLUGINS_FILE=str(base / "enabled_plugins"),
            RABBITMQ_CONF_ENV_FILE=str(base / "nothing"),
            RABBITMQ_ADVANCED_CONFIG_FILE=str(base / "none"),
            RABBITMQ_PID_FILE=str(base / "pid"),
            # the script becomes the server, so that signals reach that
            RABBITMQ_ALLOW_INPUT="1",
            # few schedulers, which sleep instead of turning in circles when there is nothing to do
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-noinput +S 2:2 +SDio 2 +sbwt none +sbwtdcpu none +sbwtdio none",
        )

    def start(self) -> None:
        """Returns when it takes connections: some seconds. Raises NoServerError."""
        log, environment = self._base / "log", self._environment()
        if self._names is None or self._names.poll() is not None:
            # the server would start its own, as a daemon that nobody ends
            self._names = spawn(["epmd", "-relaxed_command_check"], self._base / "names", environment)
        self._process = spawn([self._script], log, environment)
        wait_until(lambda: _answers(self.port), self._process, log, str(self._script))

    def close(self) -> None:
        self.kill()
        end(self._names, signal.SIGKILL)
        shutil.rmtree(self._base, ignore_errors=True)


def _answers(port: int) -> bool:
    with (
        contextlib.suppress(OSError, amqp.AMQPError),
        amqp.Connection(f"127.0.0.1:{port}", connect_timeout=2, read_timeout=5),
    ):
        return True
    return False


@contextlib.contextmanager
def own_rabbitmq() -> Iterator[RabbitMQ]:
    """A server that the test may stop, kill and start again. Raises NoServerError."""
    server = RabbitMQ(script())
    try:
        server.start()
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def running_rabbitmq() -> Iterator[str]:
    """The URL of a server: the given one, or one of our own. Raises NoServerError."""
    if given := os.environ.get(URL_VARIABLE):
        yield given
        return
    with own_rabbitmq() as server:
        yield server.url


def forget(url: str, queues: Iterable[str]) -> None:
    """Remove queues with what waits in them; those that do not exist are no fault."""
    with kombu.Connection(url) as connection, connection.channel() as channel:
        for queue in queues:
            channel.queue_delete(queue)
