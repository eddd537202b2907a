"""`sciagent metrics`: serves metrics of the ledger for Prometheus, over HTTP."""

from __future__ import annotations

import threading
from typing import Any

import typer

from sciagent.cli import options
from sciagent.cli.shared import end_at_once, open_ledger, say
from sciagent.errors import UsageError

LOCAL = "127.0.0.1"
DEFAULT = f"{LOCAL}:9464"


def metrics(
    listen: str = typer.Option(DEFAULT, metavar="HOST:PORT", help="Where; port 0: any free port."),
    ledger: options.Ledger = None,
) -> None:
    """Serve queue depths, jobs, attempts, costs and workers at /metrics, in the text format of Prometheus.

    Reads only. It has no password and no encryption, and what it says names campaigns and hosts: let it listen where
    only your Prometheus reaches it. Ctrl-C or SIGTERM ends it.
    """
    from sciagent.api.interrupts import each_signal

    host, port = _address(listen)
    make, stop = collectors().LedgerCollector, threading.Event()
    opened = open_ledger(ledger)
    with each_signal(stop.set, last=end_at_once):
        _, at = serve(make(opened), host, port)
        say(f"metrics of {opened.url.render_as_string()} at http://{at}/metrics")
        stop.wait()


def serve(collector: Any, host: str, port: int) -> tuple[Any, str]:
    """Serves metrics in threads. Returns (server, `host:port`). Raises UsageError if the port cannot be opened."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise UsageError(f"cannot listen at {host}:{port}: {error.strerror or error}; name another port") from error
    shown = f"[{host}]" if ":" in host else host
    return server, f"{shown}:{server.server_port}"


def collectors() -> Any:
    """Returns the module of the collectors. Raises UsageError if its extra is not installed."""
    try:
        from sciagent.report import live as metrics
    except ImportError as error:
        raise UsageError("metrics need prometheus-client; install it with: pip install 'sciagent[metrics]'") from error
    return metrics


def _address(text: str) -> tuple[str, int]:
    """Returns host and port. Raises UsageError for any other text."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise UsageError(f'--listen "{text}": give a host and a port, such as {DEFAULT}')
    return host.strip("[]") or LOCAL, int(port)
