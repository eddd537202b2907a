"""`sciagent run FILE` and `sciagent resume NAME`: drive a campaign in this process, or hand it to a dispatcher."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sciagent.api.terminal_tables_and_signals import Line
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import (
    Exit,
    end_at_once,
    open_ledger,
    plural,
    put_answer,
    put_json,
    say,
    say_upgraded,
)
from sciagent.errors import UsageError
from sciagent.inputs.environment_variables import user

if TYPE_CHECKING:
    from sciagent.api.campaign import Campaign
    from sciagent.api.progress_display import Progress
    from sciagent.campaign.file.campaign_spec import CampaignSpec
    from sciagent.campaign.file.proposers import OneProposerSpec
    from sciagent.domain.answers.status_and_comparison import Status

QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
WorkersOption = Annotated[int | None, typer.Option("--workers", "-w", min=1, help="Jobs at once, this time only.")]
ExecutorOption = Annotated[
    str,
    typer.Option(
        "--executor",
        "-x",
        metavar="local|ledger|celery|slurm",
        help="Where paid rungs run: here, by sciagent worker without or with a broker, or on a cluster.",
    ),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", help="Where the report goes; default: NAME.report.html.")
]
NoReportOption = Annotated[
    bool, typer.Option("--no-report", help="Write no report; sciagent report NAME writes it at any time.")
]


LOOK_SECONDS = 1.0  # time between two looks at a submitted campaign
NOT_DRIVEN = (
    "nothing drives it yet; start one of: sciagent serve (with pages for people), sciagent dispatcher (without)"
)


def run(
    file: Path = typer.Argument(help="The campaign, a YAML file; with --submit also the name of one in the ledger."),
    ledger: options.Ledger = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "local",
    site: options.Site = None,
    report: ReportOption = None,
    no_report: NoReportOption = False,
    json: options.Json = False,
    quiet: QuietOption = False,
    submit: bool = typer.Option(
        False, "--submit", help="Hand it in: `sciagent serve` or `sciagent dispatcher` drives it to its end."
    ),
    wait: bool = typer.Option(False, "--wait", help="With --submit: look on until it has ended; same exit codes."),
    as_who: options.Who = None,
) -> None:
    """Run a campaign; the same file again goes on where it stopped.

    With --submit it continues after the terminal closes. The same file again, or the name, goes on with a campaign
    that was stopped or amended; see it with status, top and report.

    Exit codes: 0 ok, 2 the file or the call is wrong, 3 ended without a hit, 5 failed since its model did not answer,
    130 interrupted.
    """
    if submit:
        options_of_a_driver = {
            "--workers": workers,
            "--executor": executor != "local",
            "--site": site,
            "--report": report,
            "--no-report": no_report,
            "--quiet": quiet,
        }
        given = [option for option, value in options_of_a_driver.items() if value]
        if given:
            raise UsageError(
                f"{given[0]} does not go with --submit: the dispatcher that drives the campaign chooses it"
            )
        _submit(str(file), ledger, as_who or user(), wait, json)
        return
    if wait or as_who is not None:
        raise UsageError("--wait and --who belong to --submit")
    if not (quiet or json):
        say(f"reading {file}")
    from sciagent.api.campaign import Campaign

    campaign = Campaign.from_yaml(file, ledger, enter=False)
    say_upgraded(campaign.ledger.store)
    _drive(campaign, workers, executor, site, report, no_report, json, quiet)


def _submit(campaign: str, ledger: str | None, who: str, wait: bool, json: bool) -> None:
    """Enters a campaign in the ledger for a dispatcher. campaign: a YAML file, or the name of one in the ledger."""
    from sciagent.api.campaign import Campaign
    from sciagent.campaign.people.amend_pause_stop_and_resume import hand_in
    from sciagent.store.campaign_state import campaigns
    from sciagent.store.job_queue import workers_and_capacity as workers

    path = Path(campaign)
    opened = open_ledger(ledger, create=True)
    is_file = path.suffix in (".yaml", ".yml") or path.exists()
    if is_file:
        submitted = Campaign.from_yaml(path, opened, enter=False)
    else:
        submitted = Campaign.open(campaign, opened)
    submitted.enter(who)
    for line in submitted.amended:
        say(f"amended: {line}")
    name = submitted.name
    _say_kept(name, submitted.kept)
    hand_in(opened, name, who)
    with opened.read() as connection:
        driver = campaigns.driver_of(connection, campaigns.get(connection, name).id)
        dispatchers = [worker for worker in workers.alive(connection) if worker.executor == "dispatcher"]
    if driver is not None and not driver.alive:
        driver = None  # it died, and drives nothing
    lines = [f"submitted {name}; see: sciagent status {name}"]
    if driver is not None:
        lines.append(f"process {driver.pid} on {driver.host} drives it already")
    elif not dispatchers:
        lines.append(NOT_DRIVEN)
    if wait:
        say("\n".join(lines))
        _follow(submitted, json)
    else:
        answer = {"campaign": name, "dispatchers": len(dispatchers), "driven": driver is not None}
        put_answer(answer, json, map(Line, lines))


def _follow(campaign: Campaign, json: bool) -> None:
    """Shows the progress until the campaign ends. Ctrl-C ends only the view.

    Raises typer.Exit with the exit codes of `sciagent run`.
    """
    from sciagent.api.progress_display import Progress
    from sciagent.execution.worker.worker_slot import retry_while_away
    from sciagent.store.campaign_state import campaigns

    name = campaign.name
    foot = "Ctrl-C looks away; the campaign goes on"

    def is_hosted() -> bool:
        """Whether a dispatcher is to drive the campaign, which is so until the campaign ends."""
        with campaign.ledger.store.read() as connection:
            return campaigns.get(connection, name).hosted

    try:
        with Progress(campaign.ledger.store, name, quiet=json, foot=foot) as progress:
            while retry_while_away(is_hosted):
                retry_while_away(progress.step)
                time.sleep(LOOK_SECONDS)
        status = retry_while_away(campaign.status)
    except KeyboardInterrupt:
        say(f"{name} goes on; see: sciagent status {name}")
        raise typer.Exit(Exit.INTERRUPTED) from None
    conclude(progress, campaign, status, report=None, json=json)


def resume(
    name: options.CampaignName = None,
    ledger: options.Ledger = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "local",
    site: options.Site = None,
    report: ReportOption = None,
    no_report: NoReportOption = False,
    json: options.Json = False,
    quiet: QuietOption = False,
    restricted: bool = typer.Option(False, "--restricted", hidden=True, help="It names only what --allow allows."),
    allow: Path | None = typer.Option(None, "--allow", hidden=True, help="With --restricted: the list."),
) -> None:
    """Go on with a campaign from the ledger, as it was started; tell a driver that was paused to go on."""
    from sciagent.api.campaign import Campaign
    from sciagent.campaign.file.allow_list import AllowList, read_allow_list
    from sciagent.campaign.people.amend_pause_stop_and_resume import wake

    allowed: AllowList | None = None
    if restricted:
        allowed = AllowList() if allow is None else read_allow_list(allow)
    opened = open_ledger(ledger)
    campaign = Campaign.open(name, opened, allowed=allowed)
    driver = wake(opened, campaign.name, user())
    if driver:
        say(f"told the driver at {driver} to go on; see: sciagent status {campaign.name}")
        return
    _drive(campaign, workers, executor, site, report, no_report, json, quiet)


def _drive(
    campaign: Campaign,
    workers: int | None,
    executor: str,
    site: Path | None,
    report: Path | None,
    no_report: bool,
    json: bool,
    quiet: bool,
) -> None:
    from sciagent.api.progress_display import Progress
    from sciagent.campaign.core.create_and_open import EntryKind
    from sciagent.report.page.html_page import checked_report_path

    if report and no_report:
        raise UsageError("--report and --no-report exclude each other")
    campaign.try_executor(executor, site)  # first, so that a wrong option leaves no campaign in the ledger
    entered = campaign.enter()
    for line in entered.amendments:
        say(f"amended: {line}")
    _say_kept(campaign.name, entered.kept)
    for line in entered.grown:
        say(line)
    spec = entered.built.spec
    if spec.safety_note:
        say(spec.safety_note)
    name = campaign.name
    target = None if no_report else checked_report_path(report or Path(f"{name}.report.html"))
    is_quiet = quiet or json
    if not is_quiet:
        begins = "starting" if entered.entry is EntryKind.CREATED else "going on with"
        say(f"{begins} {name}: {plural(len(spec.ladder), 'rung')}, ledger {campaign.ledger.url}")
        say(_who_proposes(spec))
        for line in (*entered.left_out, *entered.calibrations):
            say(line)
    progress = Progress(campaign.ledger.store, name, quiet=is_quiet, leave=end_at_once)
    status = campaign.run(workers=workers, executor=executor, site=site, report=target, progress=progress)
    conclude(progress, campaign, status, target, json)


def _say_kept(campaign: str, kept: Sequence[str]) -> None:
    """Says which amended values a campaign keeps, and how to undo them. kept: a sentence on each."""
    for line in kept:
        say(line)
    if kept:
        say(f"to go back to the file: sciagent amend {campaign} --file FILE")


def conclude(progress: Progress, campaign: Campaign, status: Status, report: Path | None, json: bool) -> None:
    """Prints the summary of an ended campaign. Raises typer.Exit with the exit code if it is not 0."""
    name = campaign.name
    state = status.state
    if json:
        put_json(status)
    else:
        progress.summary(status, report)
    if state == "interrupted":
        say(f"{status.stop_reason or 'interrupted'}; go on with: sciagent resume {name}")
        raise typer.Exit(Exit.INTERRUPTED)
    if state == "waiting":
        from sciagent.api.displayed_answers import list_commands

        say(f"{name} waits {status.stop_reason}; see: {list_commands(status)}")
        return
    if state == "failed":
        say(f"{name} has failed: {status.stop_reason}")
        say(f"nothing is lost; when that is mended, go on with: sciagent resume {name}")
        raise typer.Exit(Exit.CAMPAIGN_FAILED)
    if state not in ("finished", "budget_spent"):
        say(f"{name} is {state}; see: sciagent status {name}")
        raise typer.Exit(Exit.FAILED)
    if campaign.spec.goal.kind == "hits" and status.hits == 0:
        raise typer.Exit(Exit.NO_HIT)


def _who_proposes(spec: CampaignSpec) -> str:
    """Returns a line on the proposers; for a script, also how to use a language model."""
    if len(spec.proposers) > 1:
        listed = ", ".join(f"{name} ({_in_words(each)})" for name, each in spec.proposers)
        return f"candidates are proposed side by side by {listed}"
    _, proposer = spec.proposers[0]
    line = f"candidates are proposed by {_in_words(proposer)}"
    if proposer.kind != "llm":
        line += ", a script; a language model does it with proposer: {kind: llm, model: NAME} in the YAML"
    return line


def _in_words(proposer: OneProposerSpec) -> str:
    if proposer.kind != "llm":
        return proposer.kind
    what = f"the policy {proposer.policy}" if proposer.policy else f"the model {proposer.model}"
    return f"{what} at {proposer.endpoint}" if proposer.endpoint else what
