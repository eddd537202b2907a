"""The HTTP server of the pages."""

from __future__ import annotations

import socket
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from sciagent.errors import UsageError

GRACE = 3  # seconds in which requests that run may end
BACKLOG = 512


class PageServer:
    """A server of the pages. The port is taken at once, so that the address is known before it starts."""

    def __init__(
        self,
        app: FastAPI,
        host: str,
        port: int,
        tls_cert: Path | None = None,
        tls_key: Path | None = None,
        behind_proxy: bool = False,
    ) -> None:
        """port: 0 for any free one. behind_proxy: believe a proxy on this machine about scheme and client. Raises
        UsageError if the port cannot be opened, or the certificate not read."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise UsageError(f"cannot listen at {host}:{port}: {error.strerror or error}; name another port") from error
        config = uvicorn.Config(
            app, log_level="warning", timeout_graceful_shutdown=GRACE, backlog=BACKLOG, server_header=False,
            proxy_headers=behind_proxy, ssl_certfile=tls_cert, ssl_keyfile=tls_key,
        )  # fmt: skip
        try:
            config.load()
        except OSError as error:
            self._socket.close()
            raise UsageError(f"the certificate or its key cannot be read: {error}") from error
        self._server = uvicorn.Server(config)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls_cert else 'http'}://{shown}:{self._socket.getsockname()[1]}"

    def run(self) -> None:
        """Serves until a signal, or `stop`."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Ends the server. May be called from any thread."""
        self._server.should_exit = True
