"""The commands `sciagent worker`, `workers` and `dispatcher`, and the server of metrics for Prometheus.

`sciagent worker` runs jobs of all campaigns of the ledger. `sciagent workers` lists the workers with their jobs, and
stops a worker from taking new jobs. `sciagent dispatcher` drives submitted campaigns, which continue after the terminal
closes. `serve_metrics` serves figures of the ledger or of a worker over HTTP.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sciagent.api.terminal_tables_and_signals import Line
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import (
    LogFormat,
    LogFormatOption,
    end_at_once,
    open_ledger,
    plural,
    put_answer,
    say,
    set_up,
)
from sciagent.domain import states_and_needs
from sciagent.domain.safe_text_and_durations import ago
from sciagent.domain.states_and_needs import CORES, GPU, in_words
from sciagent.errors import UnknownNameError, UsageError
from sciagent.inputs.environment_variables import path

if TYPE_CHECKING:
    from sciagent.store.job_queue.workers_and_capacity import RunningJob, WorkerRow
    from sciagent.store.views.queues_campaigns_and_recent_failures import Queue

LOCAL = "127.0.0.1"  # address that only this machine reaches
EXAMPLE_ADDRESS = f"{LOCAL}:9464"  # of --listen
MAX_PORT = 65535
MAX_DIGITS = 8  # digits of the number of a resource


def serve_ledger_metrics(listen: str, ledger: str | None) -> None:
    """Serves the figures of the ledger at `/metrics` of an address `HOST:PORT` until a signal ends it."""
    from sciagent.api.terminal_tables_and_signals import each_signal

    host, port = _address(listen)
    collector_class = collectors().LedgerCollector
    stop = threading.Event()
    opened = open_ledger(ledger)
    with each_signal(stop.set, last=end_at_once):
        _, at = serve_metrics(collector_class(opened), host, port)
        say(f"metrics of {opened.url.render_as_string()} at http://{at}/metrics")
        stop.wait()


def serve_metrics(collector: Any, host: str, port: int) -> tuple[Any, str]:
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
        from sciagent.report import prometheus_metrics
    except ImportError as error:
        raise UsageError("metrics need prometheus-client; install it with: pip install 'sciagent[metrics]'") from error
    return prometheus_metrics


def _address(text: str) -> tuple[str, int]:
    """Returns the host and the port of `HOST:PORT`. Raises UsageError for any other text."""
    host, colon, port = text.rpartition(":")
    is_port = port.isdecimal() and len(port) <= 5 and int(port) <= MAX_PORT
    if not colon or not is_port:
        raise UsageError(f'--listen "{text}": give a host and a port, such as {EXAMPLE_ADDRESS}')
    return host.strip("[]") or LOCAL, int(port)


TIERS = ("simulation", "high_fidelity")  # tiers of rungs; each is the name of the queue of its jobs
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

    from sciagent.api.terminal_tables_and_signals import each_signal
    from sciagent.execution.polling_worker import PollingWorker
    from sciagent.execution.worker.read_claimed_jobs import scratch_of
    from sciagent.store.job_queue.leases import LEASE_SECONDS
    from sciagent.store.job_queue.workers_and_capacity import NewWorker

    set_up(log_format)
    memory = memory_mb or int(psutil.virtual_memory().total / 1e6)
    queues = tuple(tier or TIERS)
    unknown = sorted(set(queues) - set(TIERS))
    if unknown:
        raise UsageError(f"--tier {unknown[0]}: use {', '.join(TIERS)}")
    opened = open_ledger(ledger, idle_seconds=LEASE_SECONDS)
    if elements is not None:
        import tempfile

        from sciagent.execution.slurm.array_element import read_task, run_element

        element = read_task(elements)
        scratch_of_user = Path(tempfile.gettempdir()) / f"sciagent-{os.getuid()}"
        ran = run_element(opened, element, scratch or scratch_of_user)
        say(f"{element.name} ran {plural(ran, 'job')}")
        return
    resources = _resources(resource or [])
    host = socket.gethostname()
    unique_name = name or f"{host}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
    say(f"{unique_name} takes jobs of {', '.join(queues)}, {slots} at once; {opened.url.render_as_string()}")
    scratch_folder = scratch or scratch_of(opened.artifacts)
    new = NewWorker(
        name=unique_name,
        host=host,
        pid=os.getpid(),
        executor=executor,
        queues=queues,
        slots=slots,
        memory_mb=memory,
        cores=cores,
        resources=resources,
    )
    if executor == "celery":
        if metrics_port is not None:
            raise UsageError("--metrics-port is for --executor ledger")
        from sciagent.execution.celery.worker import serve
        from sciagent.execution.celery_executor_and_choice_by_name import broker_url

        serve(opened, broker_url(broker), new, scratch_folder)
        return
    if executor != "ledger":
        raise UsageError(f'--executor "{executor}": use ledger or celery')
    polling_worker = PollingWorker(opened, new, scratch_folder, idle_exit=idle_exit, max_jobs=max_jobs)

    def finish() -> None:
        polling_worker.request_stop()
        say("finishing what runs; once more gives it back")

    if metrics_port is not None:
        collector = collectors().WorkerCollector(unique_name, lambda: polling_worker.ran)
        _, at = serve_metrics(collector, LOCAL, metrics_port)
        say(f"metrics at http://{at}/metrics")
    with each_signal(finish, polling_worker.abort, last=end_at_once):
        ran = polling_worker.serve()
    say(f"{unique_name} ran {plural(ran, 'job')}")


def _resources(texts: list[str]) -> dict[str, int]:
    """Parses resources written as NAME=N. Raises UsageError."""
    from sciagent.execution.worker.worker_slot import check_gpus

    resources = dict[str, int]()
    for text in texts:
        name, _, n = text.partition("=")
        if name == states_and_needs.CORES:
            raise UsageError(f"--resource {text}: say --cores {n}")
        is_number = n.isdecimal() and len(n) <= MAX_DIGITS
        if not is_number or name in resources:
            raise UsageError(f'--resource "{text[:60]}": NAME=N, such as gpu=2, each name once')
        resources[name] = int(n)
    try:
        states_and_needs.check_needs(resources)
    except ValueError as error:
        raise UsageError(f"--resource {error}") from None
    check_gpus(resources.get(states_and_needs.GPU, 0))
    return resources


def workers(
    every: bool = typer.Option(False, "--all", help="Those too that stopped or were lost in the last day."),
    drain: str | None = typer.Option(
        None, "--drain", metavar="WORKER", help="This worker takes nothing new; it finishes what it runs, and stays."
    ),
    undo: bool = typer.Option(False, "--undo", help="With --drain: it may take jobs again."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """List the workers, the jobs that each runs and since when, and the jobs that wait in each queue.

    Reads only, unless --drain tells a worker to take no new jobs. The worker hears of it within seconds.
    """
    if drain is not None:
        _drain(drain, undo, ledger, json)
        return
    if undo:
        raise UsageError("--undo belongs to --drain WORKER")
    from sciagent.store.database.engine import db_now
    from sciagent.store.job_queue import workers_and_capacity as store
    from sciagent.store.views import queues_campaigns_and_recent_failures

    with open_ledger(ledger).read() as connection:
        now = db_now(connection)
        listed_since = now - timedelta(days=1) if every else now
        listed = store.reported_since(connection, listed_since)
        running = store.running_jobs(connection)
        queues = queues_campaigns_and_recent_failures.queues(connection)
        lacking = list[str]()
        for queue in queues:
            if queue.slots:  # without a worker, `_unserved` names the queue
                lacking += store.impossible_requests(connection, queue.queue)
    jobs: dict[str, list[RunningJob]] = {}
    for worker in listed:
        jobs[worker.name] = [job for job in running if job.worker == worker.name]
    shown = [vars(worker) | {"alive": _is_alive(worker, now), "running": jobs[worker.name]} for worker in listed]
    lines = list[str]()
    for worker in listed:
        lines += _worker_lines(worker, jobs[worker.name], now)
    lines = lines or ["no worker is alive; start a worker with: sciagent worker --slots 2"]
    lines += _queue_lines(queues, now)
    lines += lacking
    lines += _unserved(queues)
    put_answer({"workers": shown, "queues": queues}, json, map(Line, lines))


def _drain(worker: str, undo: bool, ledger: str | None, json: bool) -> None:
    from sciagent.store.job_queue import workers_and_capacity as store

    with open_ledger(ledger).begin() as connection:
        known = {row.name: row for row in store.alive(connection)}
        if worker not in known:
            raise UnknownNameError("worker", worker, known)
        store.drain(connection, worker, draining=not undo)
        running = [job for job in store.running_jobs(connection) if job.worker == worker]
    work_left = f"it finishes {plural(len(running), 'job')}" if running else "it runs nothing"
    lines = [f"{worker} takes nothing new; {work_left}", f"to undo it: sciagent workers --drain {worker} --undo"]
    if undo:
        lines = [f"{worker} takes jobs again"]
    put_answer({"worker": worker, "draining": not undo, "running": running}, json, map(Line, lines))


def _is_alive(worker: WorkerRow, now: datetime) -> bool:
    return worker.until is not None and worker.until > now


def _worker_lines(worker: WorkerRow, jobs: Sequence[RunningJob], now: datetime) -> Iterator[str]:
    yield _headline(worker, now)
    for job in jobs:
        holds = f", holds {_held(job.holds)}" if job.holds else ""
        what = f"{job.owner}: job {job.job_id}, {job.campaign} {job.rung}, {job.candidate}{holds}"
        progress = f", {job.progress.words}" if job.progress else ""
        yield f"  {what}, {ago(now, job.since)}{progress}"
    if not jobs and _is_alive(worker, now):
        yield "  runs nothing"


def _headline(worker: WorkerRow, now: datetime) -> str:
    memory = f", {worker.memory_mb / 1000:.0f} GB" if worker.memory_mb else ""
    state = ", draining" if worker.draining else ""
    if not _is_alive(worker, now):
        state = ", stopped" if worker.stopped_at else f", lost: last seen {ago(now, worker.seen_at)} ago"
    since = f"up {ago(now, worker.started_at)}, seen {ago(now, worker.seen_at)} ago"
    resources: dict[str, int] = {}
    if worker.cores is not None and worker.cores != worker.slots:
        resources[CORES] = worker.cores
    resources.update(worker.resources)
    has = f", {in_words(resources)}" if resources else ""
    queues = f" for {', '.join(worker.queues)}" if worker.queues else ""
    slots = plural(worker.slots, "slot")
    return f"{worker.name} on {worker.host} ({worker.executor}): {slots}{memory}{has}{queues}; {since}{state}"


def _held(holds: Mapping[str, Any]) -> str:
    gpus = f"GPU {', '.join(map(str, holds[GPU]))}" if GPU in holds else ""
    other_resources = in_words({name: n for name, n in holds.items() if name != GPU})
    return ", ".join(text for text in (other_resources, gpus) if text)


def _queue_lines(queues: Sequence[Queue], now: datetime) -> Iterator[str]:
    for queue in queues:
        waits = "waits" if queue.depth == 1 else "wait"
        oldest = f", the oldest for {ago(now, queue.oldest)}" if queue.oldest else ""
        yield f"queue {queue.queue}: {queue.depth} {waits}{oldest}; {plural(queue.slots, 'slot')} serve it"


def _unserved(queues: Sequence[Queue]) -> list[str]:
    """Returns a line with the command that starts a worker, for each queue with waiting jobs and no worker."""
    names = [queue.queue for queue in queues if queue.depth and not queue.slots]
    return [f"nobody serves queue {name}: sciagent worker --tier {name}" for name in names]


def short_owner(owner: str) -> str:
    """Returns the readable part of a lease's owner: worker and slot, or the driver's host and process."""
    parts = owner.rsplit(":", 3)
    if len(parts) < 4:  # without the parts that make it unique
        return owner
    return ":".join(parts[:2])


def dispatcher(
    executor: str = typer.Option(
        "ledger", "--executor", "-x", metavar="ledger|celery|slurm", help="How workers learn that there is work."
    ),
    site: options.Site = None,
    reports: Path = typer.Option(Path(), help="Folder for the reports of campaigns."),
    allow: options.AllowFile = None,
    log_format: LogFormatOption = LogFormat.AUTO,
    ledger: options.Ledger = None,
) -> None:
    """Drive submitted campaigns, each in a process of its own, and take back what lost workers held.

    Several may run; a campaign has a single driver at a time. Ctrl-C or SIGTERM ends it cleanly, and the campaigns
    go on when it is started again. A campaign that names a program, an address, an environment variable or a file is
    driven if the list allows it; without a list, if the ledger is a SQLite file that only this user may write.
    """
    from sciagent.api.terminal_tables_and_signals import each_signal
    from sciagent.campaign.driving.dispatcher_of_driver_processes import Host
    from sciagent.campaign.file.allow_list import AllowList, read_allow_list
    from sciagent.execution.celery_executor_and_choice_by_name import executor_of
    from sciagent.store.job_queue.workers_and_capacity import NewWorker

    set_up(log_format)
    opened = open_ledger(ledger, create=True)
    host = socket.gethostname()
    job_executor = executor_of(executor, opened, site)
    if job_executor is None:
        raise UsageError("--executor local: a dispatcher runs no jobs itself; start sciagent worker beside it")
    reports.mkdir(parents=True, exist_ok=True)
    name = f"dispatcher:{host}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
    # it registers as a worker without slots, since it runs no jobs itself
    registration = NewWorker(name=name, host=host, pid=os.getpid(), executor="dispatcher", queues=TIERS, slots=0)
    # the dispatcher alone submits to Slurm; the drivers that it starts only queue their jobs in the ledger
    executor_of_drivers = "ledger" if executor == "slurm" else executor

    allow_file = allow or path("SCIAGENT_ALLOW_FILE")
    is_restricted = allow_file is not None or not opened.is_mine_alone

    def allowed() -> AllowList:
        return AllowList() if allow_file is None else read_allow_list(allow_file)

    allowed()  # raises UsageError for a list that cannot be read
    options_of_drivers = ["--executor", executor_of_drivers, "--quiet"]
    if is_restricted:
        options_of_drivers.append("--restricted")
    if allow_file is not None:
        options_of_drivers += ["--allow", str(allow_file.resolve())]

    def command(campaign: str) -> list[str]:
        return [sys.executable, "-m", "sciagent", "resume", campaign, *options_of_drivers]

    check = allowed if is_restricted else None
    hosting = Host(opened, registration, job_executor, command, reports.resolve(), check)

    def finish() -> None:
        hosting.request_stop()
        say("telling the drivers to end; once more ends at once (nothing is lost either way)")

    say(f"{name} drives what is submitted to {opened.url.render_as_string()}")
    if allow_file is not None:
        say(f"campaigns may name what {allow_file} allows")
    elif is_restricted:
        say("others may write into this ledger: campaigns may name no program, address, variable or file; see --allow")
    with each_signal(finish, last=end_at_once):
        hosting.serve()
