"""`sciagent run FILE` and `sciagent resume NAME`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sciagent.cli.shared.common import Exit, JsonOption, LedgerOption, open_ledger, put_json, say, who
from sciagent.cli.shared.signals import each_signal, end_at_once
from sciagent.errors import LedgerAwayError

if TYPE_CHECKING:
    from sciagent.campaign.core.build import Built
    from sciagent.campaign.driving.driver import Driver
    from sciagent.campaign.spec.sources import OneProposerSpec
    from sciagent.cli.shared.progress import Progress
    from sciagent.domain.answers.status import Status

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
SiteOption = Annotated[
    Path | None, typer.Option("--site", help="Of --executor slurm: the site profile; default: $SCIAGENT_SLURM_SITE.")
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", help="Where the report goes; default: NAME.report.html.")
]


def register(app: typer.Typer) -> None:
    app.command("run", epilog="Example: sciagent run campaigns/quickstart.yaml --ledger my.db")(run)
    app.command("resume", epilog="Example: sciagent resume quickstart")(resume)


def run(
    file: Annotated[Path, typer.Argument(help="The campaign, a YAML file.")],
    ledger: LedgerOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "local",
    site: SiteOption = None,
    report: ReportOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a campaign; the same file again goes on where it stopped.

    Exit codes: 0 ok, 2 the file or the call is wrong, 3 ended without a hit, 130 interrupted.
    """
    hush = quiet or json
    if not hush:
        say(f"reading {file}")
    from sciagent.campaign.core.build import create_or_open
    from sciagent.campaign.spec.load import load_spec

    spec = load_spec(file)
    source = file.read_text(encoding="utf-8")
    opened = open_ledger(ledger, create=True)
    _try_out(executor, opened, site)
    built, amended = create_or_open(opened, spec, source, who())
    for line in amended:
        say(f"amended: {line}")
    _drive(built, workers, executor, site, report, json, quiet)


def resume(
    name: Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")] = None,
    ledger: LedgerOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = "local",
    site: SiteOption = None,
    report: ReportOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Go on with a campaign from the ledger, as it was started; tell a driver that was paused to go on."""
    from sciagent.campaign.core.build import open_stored
    from sciagent.cli.shared.common import pick_campaign

    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = pick_campaign(connection, name)
    if _wake(opened, row):
        return
    _drive(open_stored(opened, row.name, who()), workers, executor, site, report, json, quiet)


def _try_out(executor: str, ledger: Any, site: Path | None) -> None:
    """A mistake in what was typed, or is not set, leaves no campaign behind."""
    from sciagent.execution.executors import executor_of

    if (told := executor_of(executor, ledger, site)) is not None:
        told.close()


def _wake(ledger: Any, row: Any) -> bool:
    """Whether a driver in another process was paused, and is told to go on."""
    from sciagent.domain.directives import Verb
    from sciagent.domain.states import CampaignState
    from sciagent.store.campaign_state import campaigns, directives

    if row.state is not CampaignState.PAUSED:
        return False
    with ledger.begin() as connection:
        driver = campaigns.driver_of(connection, row.id)
        if driver is None or not driver.alive:
            return False
        directives.write(connection, row.id, Verb.RESUME, who(), "")
    say(f"told the driver at {driver.host} (process {driver.pid}) to go on; see: sciagent status {row.name}")
    return True


def _who_proposes(built: Built) -> str:
    """A model, or a script and how to name a model."""
    named = built.spec.proposers
    if len(named) > 1:
        listed = ", ".join(f"{name} ({_in_words(one)})" for name, one in named)
        return f"candidates are proposed side by side by {listed}"
    spec = named[0][1]
    if spec.kind == "llm":
        return f"candidates are proposed by {_in_words(spec)}"
    model = "proposer: {kind: llm, model: NAME}"
    return f"candidates are proposed by {spec.kind}, a script; a language model does it with {model} in the YAML"


def _in_words(spec: OneProposerSpec) -> str:
    if spec.kind != "llm":
        return spec.kind
    return f"the model {spec.model}" + (f" at {spec.endpoint}" if spec.endpoint else "")


class Interrupts:
    """What Ctrl-C and SIGTERM do to a driver. show: where words to the user go."""

    def __init__(self) -> None:
        self.show: Callable[[str], None] = say
        self.driver: Driver | None = None
        self.stop = threading.Event()

    def first(self) -> None:
        self.stop.set()
        if self.driver is None:
            end_at_once()
        else:
            self.driver.request_stop()
            self.show("finishing what runs; Ctrl-C again stops at once (nothing is lost either way)")

    def second(self) -> None:
        assert self.driver is not None, "without one the first ends it"
        self.driver.abort()


def _drive(
    built: Built, workers: int | None, executor: str, site: Path | None, report: Path | None, json: bool, quiet: bool
) -> None:
    from sciagent.campaign.core.build import open_stored
    from sciagent.campaign.core.safety import note
    from sciagent.campaign.driving.driver import Driver
    from sciagent.cli.shared.progress import Progress
    from sciagent.execution.executors import executor_of
    from sciagent.execution.worker.runner import patiently
    from sciagent.report.answers.status import status as campaign_status
    from sciagent.report.page.writer import GrowingReport, checked
    from sciagent.store.campaign_state import campaigns

    if unusual := note(built.spec):
        say(unusual)
    ledger, name = built.ledger, built.row.name
    target = checked(report or Path(f"{name}.report.html"))
    growing = GrowingReport(built.ledger, name, target)
    if not (quiet or json):
        n = len(built.rungs)
        say(f"starting {name}: {n} rung{'' if n == 1 else 's'}, ledger {built.ledger.url.render_as_string()}")
        say(_who_proposes(built))
    told = Interrupts()
    with each_signal(told.first, told.second):  # before anything is started: a Ctrl-C then is a clean stop too
        while True:
            told.driver = Driver(built, workers, executor_of(executor, ledger, site))
            try:
                with told.driver, Progress(built, quiet or json) as progress:
                    told.show = progress.note
                    if told.driver.reaped:
                        progress.note(f"took back {told.driver.reaped} jobs of a driver that died")

                    def step(progress: Progress = progress) -> None:
                        progress.step()
                        growing.step()

                    told.driver.run(step)
                break
            except LedgerAwayError as error:
                if ledger.engine.dialect.name == "sqlite" or told.stop.is_set():
                    raise
                told.show = say
                say(f"the ledger is away; the campaign goes on when it is back: {str(error).splitlines()[0][:200]}")
                patiently(told.driver.release, told.stop)
                built = patiently(lambda: open_stored(ledger, name, who()), told.stop)
        with ledger.read() as connection:
            row = campaigns.get(connection, name)
            status = campaign_status(connection, row)
        growing.finish()  # a signal that comes now leaves no half a report
    if growing.fault:
        say(f"the report could not be written: {growing.fault}")
    conclude(progress, built, status, target, json)


def conclude(progress: Progress, built: Built, status: Status, report: Path | None, json: bool) -> None:
    """The last words on a campaign that has ended, and its exit code."""
    name, state = status.campaign, status.state
    if json:
        put_json(status)
    else:
        progress.summary(status, report)
    if state == "interrupted":
        say(f"{status.stop_reason or 'interrupted'}; go on with: sciagent resume {name}")
        raise typer.Exit(Exit.INTERRUPTED)
    if state not in ("finished", "budget_spent"):
        say(f"{name} is {state}; see: sciagent status {name}")
        raise typer.Exit(Exit.FAILED)
    if built.spec.goal.kind == "hits" and status.hits == 0:
        raise typer.Exit(Exit.NO_HIT)
