"""`sciagent serve`: the pages for people, and the dispatcher that goes on after their answers."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sciagent.cli import options
from sciagent.cli.shared import open_ledger, say
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.store.database.ledger import Ledger

LOCAL = ("127.0.0.1", "localhost", "::1")
DRIVERS_END = 60  # seconds in which the dispatcher's drivers may end


def serve(
    host: str = typer.Option("127.0.0.1", "--host", help="Address to listen at; another than this machine needs TLS."),
    port: int = typer.Option(8080, "--port", min=0, max=65535, help="Port; 0: any free one."),
    tls_cert: Path | None = typer.Option(None, "--tls-cert", help="Certificate (PEM), for https."),
    tls_key: Path | None = typer.Option(None, "--tls-key", help="Its private key (PEM)."),
    behind_proxy: bool = typer.Option(False, "--behind-proxy", help="A proxy on this machine speaks TLS."),
    no_dispatcher: bool = typer.Option(
        False, "--no-dispatcher", help="Only the pages; `sciagent dispatcher` runs elsewhere."
    ),
    ledger: options.Ledger = None,
) -> None:
    """Serve the laboratory's form and the chemist's window, and drive the campaigns that were submitted.

    Accounts are made with `sciagent person add`. Ctrl-C or SIGTERM ends it; nothing is lost.
    """
    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together")
    secure = tls_cert is not None or behind_proxy
    if host not in LOCAL and tls_cert is None:
        raise UsageError(
            f"others reach {host}: passwords need TLS; give --tls-cert and --tls-key, or listen at 127.0.0.1 behind a "
            "proxy that speaks it: --behind-proxy"
        )
    opened = open_ledger(ledger, create=True)
    application, server_of = _parts()
    server = server_of(application(opened, secure=secure), host, port, tls_cert, tls_key, behind_proxy)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the server raises it again when it has closed
    with contextlib.ExitStack() as stack:
        if not no_dispatcher:
            stack.enter_context(_dispatcher(opened))
        say(f"serving {opened.url.render_as_string()} at {server.url}")
        if not _has_people(opened):
            say("nobody has an account yet; the first: sciagent person add LOGIN --name NAME --admin --role chemist")
        server.run()


def _parts() -> tuple[Any, Any]:
    """Returns the application and the server. Raises UsageError if the extra is not installed."""
    try:
        from sciagent.web.app import application
        from sciagent.web.server import PageServer
    except ImportError as error:
        raise UsageError(f"pages need the extra `web` ({error.name}): pip install 'sciagent[web]'") from error
    return application, PageServer


def _has_people(ledger: Any) -> bool:
    from sciagent.store.people import persons

    with ledger.read() as connection:
        return bool(persons.listed(connection, limit=1))


@contextlib.contextmanager
def _dispatcher(ledger: Ledger) -> Iterator[None]:
    """Runs a dispatcher beside the server. It ends with the server, even if that is killed."""
    from sciagent.verification.sandbox.processes import die_with

    command = [sys.executable, "-m", "sciagent", "dispatcher"]
    end = functools.partial(die_with, os.getpid(), signal.SIGTERM)
    process = subprocess.Popen(command, env=ledger.environment(), stdin=subprocess.DEVNULL, preexec_fn=end)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(DRIVERS_END)
        except subprocess.TimeoutExpired:
            process.kill()
