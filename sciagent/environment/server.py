"""Runs a server beside the main thread, until it is stopped or its environment ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Any

import uvicorn

from sciagent.errors import UsageError
from sciagent.training.environment.environment import Environment

LOCAL = ("127.0.0.1", "localhost", "::1")
BACKLOG = 2048
GRACE = 10  # seconds in which requests that run may end
LOOK = 0.2  # seconds between looks whether the environment has ended


class EnvironmentServer:
    """A server of an ASGI application. The port is taken at once, so that the address is known before it starts."""

    def __init__(self, host: str, port: int) -> None:
        """port: 0 for any free port. Raises UsageError if it cannot be opened."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen(BACKLOG)  # clients that come before the server answers wait for it
        except OSError as error:
            self._socket.close()
            raise UsageError(f"cannot listen at {host}:{port}: {error.strerror or error}; name another port") from error
        self._stopping = threading.Event()
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"

    def serve(self, app: Any, environment: Environment) -> None:
        """Serves until the environment ends, or `stop` is called."""
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE, lifespan="off")
        server = uvicorn.Server(config)
        # not in the main thread, in which uvicorn would take the signals
        thread = threading.Thread(target=server.run, kwargs={"sockets": [self._socket]}, name="server")
        thread.start()
        while environment.left is None and thread.is_alive() and not self._stopping.wait(LOOK):
            pass
        server.should_exit = True
        thread.join()
        self._socket.close()

    def stop(self) -> None:
        """Ends the server and leaves its environment open. May be called from any thread."""
        self._stopping.set()

    def close(self) -> None:
        """Gives back the port of a server that has not served."""
        self._socket.close()


def hosts_of(host: str, token: str | None) -> Sequence[str]:
    """Returns the names under which clients may reach a server; empty for any, which a token protects.

    Raises UsageError for an address that others reach, without a token.
    """
    if token is not None:
        return ()
    if host not in LOCAL:
        raise UsageError(f"others reach {host}: set SCIAGENT_ENVIRONMENT_TOKEN to a token that clients must show")
    return LOCAL
