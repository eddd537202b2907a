"""`sciagent submit` and `sciagent dispatcher`: run campaigns that continue after the terminal closes."""

from __future__ import annotations

import os
import socket
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sciagent.api.terminal import Line
from sciagent.cli import options
from sciagent.cli.shared import Exit, LogFormat, LogFormatOption, end_at_once, open_ledger, put_answer, say, set_up
from sciagent.errors import UsageError
from sciagent.inputs.settings import user

if TYPE_CHECKING:
    from sciagent.api.campaign import Campaign

LOOK_SECONDS = 1.0
NOT_DRIVEN = (
    "nothing drives it yet; start one of: sciagent serve (with pages for people), sciagent dispatcher (without)"
)


def submit(
    campaign: str = typer.Argument(help="A YAML file, or the name of a campaign in the ledger."),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    wait: bool = typer.Option(False, "--wait", help="Look on until it has ended; exit codes as those of sciagent run."),
    json: options.Json = False,
) -> None:
    """Hand in a campaign, which `sciagent serve` or `sciagent dispatcher` drives to its end; see it with status, top
    and report.

    The same file again, or the name, goes on with a campaign that was stopped or amended.
    """
    from sciagent.api.campaign import Campaign
    from sciagent.campaign.people.steering import hand_in
    from sciagent.store.campaign_state import campaigns
    from sciagent.store.job_queue import workers

    person = as_who or user()
    path = Path(campaign)
    opened = open_ledger(ledger, create=True)
    is_file = path.suffix in (".yaml", ".yml") or path.exists()
    submitted = Campaign.from_yaml(path, opened, enter=False) if is_file else Campaign.open(campaign, opened)
    for line in submitted.enter(person).amendments:
        say(f"amended: {line}")
    name = submitted.name
    hand_in(opened, name, person)
    with opened.read() as connection:
        driver = campaigns.driver_of(connection, campaigns.get(connection, name).id)
        served = [worker for worker in workers.alive(connection) if worker.executor == "dispatcher"]
    lines = [f"submitted {name}; see: sciagent status {name}"]
    if driver and driver.alive:
        lines.append(f"process {driver.pid} on {driver.host} drives it already")
    elif not served:
        lines.append(NOT_DRIVEN)
    if wait:
        say("\n".join(lines))
        _follow(submitted, json)
    else:
        answer = {"campaign": name, "dispatchers": len(served), "driven": bool(driver and driver.alive)}
        put_answer(answer, json, map(Line, lines))


def _follow(campaign: Campaign, json: bool) -> None:
    """Shows the progress until the campaign ends; exit codes are those of `sciagent run`. Ctrl-C ends only the view."""
    from sciagent.api.progress import Progress
    from sciagent.cli.run import conclude
    from sciagent.execution.worker.runner import patiently
    from sciagent.store.campaign_state import campaigns

    def is_hosted() -> bool:
        with campaign.ledger.store.read() as connection:
            return campaigns.get(connection, name).hosted

    name = campaign.name
    try:
        with Progress(campaign.ledger.store, name, json, "Ctrl-C looks away; the campaign goes on") as progress:
            while patiently(is_hosted):
                patiently(progress.step)
                time.sleep(LOOK_SECONDS)
        status = patiently(campaign.status)
    except KeyboardInterrupt:
        say(f"{name} goes on; see: sciagent status {name}")
        raise typer.Exit(Exit.INTERRUPTED) from None
    conclude(progress, campaign, status, None, json)


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
    from sciagent.api.terminal import each_signal
    from sciagent.campaign.driving.dispatcher import Host
    from sciagent.cli.workers import TIERS
    from sciagent.execution.backends import executor_of
    from sciagent.store.job_queue.workers import NewWorker

    set_up(log_format)
    opened = open_ledger(ledger, create=True)
    host = socket.gethostname()
    chosen = executor_of(executor, opened, site)
    if chosen is None:
        raise UsageError("--executor local: a dispatcher runs no jobs itself; start sciagent worker beside it")
    reports.mkdir(parents=True, exist_ok=True)
    name = f"dispatcher:{host}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
    new = NewWorker(name, host, os.getpid(), "dispatcher", TIERS, 0)
    drives = "ledger" if executor == "slurm" else executor  # the dispatcher submits to Slurm; its drivers queue jobs

    def command(campaign: str) -> list[str]:
        return [sys.executable, "-m", "sciagent", "resume", campaign, "--executor", drives, "--quiet"]

    hosting = Host(opened, new, chosen, command, reports.resolve())

    def finish() -> None:
        hosting.request_stop()
        say("telling the drivers to end; once more ends at once (nothing is lost either way)")

    say(f"{name} drives what is submitted to {opened.url.render_as_string()}")
    with each_signal(finish, last=end_at_once):
        hosting.serve()
