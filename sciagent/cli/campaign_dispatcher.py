"""`sciagent dispatcher`: drives submitted campaigns, which continue after the terminal closes."""

from __future__ import annotations

import os
import socket
import sys
import uuid
from pathlib import Path

import typer

from sciagent.cli import options
from sciagent.cli.command_helpers import LogFormat, LogFormatOption, end_at_once, open_ledger, say, set_up
from sciagent.errors import UsageError


def dispatcher(
    executor: str = typer.Option(
        "ledger", "--executor", "-x", metavar="ledger|celery|slurm", help="How workers learn that there is work."
    ),
    site: options.Site = None,
    reports: Path = typer.Option(Path(), help="Folder for the reports of campaigns."),
    log_format: LogFormatOption = LogFormat.AUTO,
    ledger: options.Ledger = None,
) -> None:
    """Drive submitted campaigns, each in a process of its own, and take back what lost workers held.

    Several may run; a campaign has a single driver at a time. Ctrl-C or SIGTERM ends it cleanly, and the campaigns
    go on when it is started again.
    """
    from sciagent.api.terminal_and_signals import each_signal
    from sciagent.campaign.driving.start_driver_processes import Host
    from sciagent.cli.workers_and_metrics import TIERS
    from sciagent.execution.executors import executor_of
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

    def command(campaign: str) -> list[str]:
        return [sys.executable, "-m", "sciagent", "resume", campaign, "--executor", executor_of_drivers, "--quiet"]

    hosting = Host(opened, registration, job_executor, command, reports.resolve())

    def finish() -> None:
        hosting.request_stop()
        say("telling the drivers to end; once more ends at once (nothing is lost either way)")

    say(f"{name} drives what is submitted to {opened.url.render_as_string()}")
    with each_signal(finish, last=end_at_once):
        hosting.serve()
