"""`sciagent worker`: runs jobs of all campaigns of the ledger."""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from sciagent.cli.cluster.logs import LogFormat, LogFormatOption, set_up
from sciagent.cli.shared import options
from sciagent.cli.shared.common import end_at_once, open_ledger, plural, say
from sciagent.errors import UsageError

TIERS = ("simulation", "high_fidelity")


def worker(
    tier: Annotated[
        list[str] | None,
        typer.Option("--tier", "-t", help=f"Of which jobs; may be repeated; default: {', '.join(TIERS)}."),
    ] = None,
    slots: Annotated[int, typer.Option("--slots", "-s", min=1, max=1024, help="Jobs at once.")] = 1,
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, max=1024, help="Of all slots together; default: as many as slots.")
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option("--resource", "-r", metavar="NAME=N", help="What else it has, as gpu=2; may be repeated."),
    ] = None,
    memory_mb: Annotated[
        int | None, typer.Option("--memory-mb", min=100, help="Of all slots together; default: that of the machine.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Unique; default: host, process and a random part.")
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option("--scratch", help="Where jobs work, on a disk of this machine; default: beside the artifacts."),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            "--executor", "-x", metavar="ledger|celery", help="Look into the ledger, or be woken by a broker."
        ),
    ] = "ledger",
    broker: Annotated[
        str | None,
        typer.Option("--broker", metavar="URL", help="Of celery: Redis or RabbitMQ; default: $SCIAGENT_BROKER."),
    ] = None,
    idle_exit: Annotated[
        float | None, typer.Option("--idle-exit", min=1, metavar="SECONDS", help="End after so long without a job.")
    ] = None,
    max_jobs: Annotated[int | None, typer.Option("--max-jobs", min=1, help="End after so many.")] = None,
    elements: Annotated[
        Path | None, typer.Option("--from", hidden=True, help="Run what this element of a Slurm array is to run.")
    ] = None,
    log_format: LogFormatOption = LogFormat.AUTO,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", min=0, max=65535, help="Memory and jobs for Prometheus, on this machine; 0: any."
        ),
    ] = None,
    ledger: options.Ledger = None,
) -> None:
    """Take jobs that campaigns offer (sciagent run --executor ledger), most urgent first, and write their results.

    Ctrl-C (or SIGTERM) lets what runs finish; a second Ctrl-C gives it back for others to run. Start as many as you
    like, on as many machines as reach the ledger and the folder of artifacts.
    """
    import psutil

    from sciagent.api.interrupts import each_signal
    from sciagent.execution.polling_worker import Station
    from sciagent.execution.worker.checkpoints import scratch_of
    from sciagent.store.job_queue.leases import LEASE_SECONDS
    from sciagent.store.job_queue.workers import NewWorker

    set_up(log_format)
    memory = memory_mb or int(psutil.virtual_memory().total / 1e6)
    queues = tuple(tier or TIERS)
    if unknown := sorted(set(queues) - set(TIERS)):
        raise UsageError(f"--tier {unknown[0]}: use {', '.join(TIERS)}")
    opened = open_ledger(ledger, idle_seconds=LEASE_SECONDS)
    if elements is not None:
        _as_element(opened, elements, scratch)
        return
    has, host = _resources(resource or []), socket.gethostname()
    unique = name or f"{host}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
    say(f"{unique} takes jobs of {', '.join(queues)}, {slots} at once; {opened.url.render_as_string()}")
    where = scratch or scratch_of(opened.artifacts)
    new = NewWorker(unique, host, os.getpid(), executor, queues, slots, memory, cores, has)
    if executor == "celery":
        if metrics_port is not None:
            raise UsageError("--metrics-port is for --executor ledger")
        from sciagent.execution.celery.worker import serve
        from sciagent.execution.executor import broker_url

        serve(opened, broker_url(broker), new, where)
        return
    if executor != "ledger":
        raise UsageError(f'--executor "{executor}": use ledger or celery')
    station = Station(opened, new, where, idle_exit=idle_exit, max_jobs=max_jobs)

    def finish() -> None:
        station.request_stop()
        say("finishing what runs; once more gives it back")

    if metrics_port is not None:
        from sciagent.cli.cluster.metrics import serve_worker

        say(f"metrics at http://{serve_worker(station, unique, metrics_port)}/metrics")
    with each_signal(finish, station.abort, last=end_at_once):
        ran = station.serve()
    say(f"{unique} ran {plural(ran, 'job')}")


def _as_element(ledger: Any, elements: Path, scratch: Path | None) -> None:
    import tempfile

    from sciagent.execution.slurm.element import read_task, run_element

    element = read_task(elements)
    ran = run_element(ledger, element, scratch or Path(tempfile.gettempdir()) / f"sciagent-{os.getuid()}")
    say(f"{element.name} ran {ran} job{'' if ran == 1 else 's'}")


def _resources(texts: list[str]) -> dict[str, int]:
    """Parses resources written as NAME=N. Raises UsageError."""
    from sciagent.domain.jobs import resource_requests
    from sciagent.execution.worker.runner import check_gpus

    resources = dict[str, int]()
    for text in texts:
        name, _, n = text.partition("=")
        if name == resource_requests.CORES:
            raise UsageError(f"--resource {text}: say --cores {n}")
        if not (n.isdecimal() and len(n) < 9) or name in resources:
            raise UsageError(f'--resource "{text[:60]}": NAME=N, such as gpu=2, each name once')
        resources[name] = int(n)
    try:
        resource_requests.check(resources)
    except ValueError as error:
        raise UsageError(f"--resource {error}") from None
    check_gpus(resources.get(resource_requests.GPU, 0))
    return resources
