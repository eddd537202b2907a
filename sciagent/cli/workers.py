"""`sciagent worker`: runs jobs of all campaigns of the ledger."""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path

import typer

from sciagent.cli import options
from sciagent.cli.cluster import metrics
from sciagent.cli.cluster.logs import LogFormat, LogFormatOption, set_up
from sciagent.cli.shared import end_at_once, open_ledger, plural, say
from sciagent.domain.jobs import resource_requests
from sciagent.errors import UsageError

TIERS = ("simulation", "high_fidelity")
TIER_HELP = f"Of which jobs; may be repeated; default: {', '.join(TIERS)}."


def worker(
    tier: list[str] | None = typer.Option(None, "--tier", "-t", help=TIER_HELP),
    slots: int = typer.Option(1, "--slots", "-s", min=1, max=1024, help="Jobs at once."),
    cores: int | None = typer.Option(None, min=1, max=1024, help="Of all slots together; default: as many as slots."),
    resource: list[str] | None = typer.Option(
        None, "--resource", "-r", metavar="NAME=N", help="As gpu=2; may be repeated."
    ),
    memory_mb: int | None = typer.Option(None, min=100, help="Of all slots together; default: that of the machine."),
    name: str | None = typer.Option(None, help="Unique; default: host, process and a random part."),
    scratch: Path | None = typer.Option(
        None, help="Folder of running jobs, on a local disk; default: beside artifacts."
    ),
    executor: str = typer.Option(
        "ledger", "--executor", "-x", metavar="ledger|celery", help="Look into the ledger, or be woken by a broker."
    ),
    broker: str | None = typer.Option(None, metavar="URL", help="Redis or RabbitMQ; default: $SCIAGENT_BROKER."),
    idle_exit: float | None = typer.Option(None, min=1, metavar="SECONDS", help="End after so long without a job."),
    max_jobs: int | None = typer.Option(None, min=1, help="End after so many."),
    elements: Path | None = typer.Option(None, "--from", hidden=True, help="Run the jobs of this element of an array."),
    log_format: LogFormatOption = LogFormat.AUTO,
    metrics_port: int | None = typer.Option(
        None, min=0, max=65535, help="Port for Prometheus, on this machine; 0: any."
    ),
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
    memory, queues = memory_mb or int(psutil.virtual_memory().total / 1e6), tuple(tier or TIERS)
    if unknown := sorted(set(queues) - set(TIERS)):
        raise UsageError(f"--tier {unknown[0]}: use {', '.join(TIERS)}")
    opened = open_ledger(ledger, idle_seconds=LEASE_SECONDS)
    if elements is not None:
        import tempfile

        from sciagent.execution.slurm.element import read_task, run_element

        element = read_task(elements)
        ran = run_element(opened, element, scratch or Path(tempfile.gettempdir()) / f"sciagent-{os.getuid()}")
        say(f"{element.name} ran {plural(ran, 'job')}")
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
        collector = metrics.collectors().WorkerCollector(unique, lambda: station.ran)
        _, at = metrics.serve(collector, metrics.LOCAL, metrics_port)
        say(f"metrics at http://{at}/metrics")
    with each_signal(finish, station.abort, last=end_at_once):
        ran = station.serve()
    say(f"{unique} ran {plural(ran, 'job')}")


def _resources(texts: list[str]) -> dict[str, int]:
    """Parses resources written as NAME=N. Raises UsageError."""
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
