"""`sciagent pause | stop | amend` for a campaign, and `hold | veto | promote` for a candidate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sciagent.api.terminal_tables_and_signals import Line
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import candidate_text, open_ledger, plural, put_answer
from sciagent.domain.states_and_needs import Verb
from sciagent.errors import UsageError
from sciagent.inputs.environment_variables import user

UndoOption = Annotated[
    bool,
    typer.Option("--undo", help="Take back a hold or a veto; the candidate stands again where its evidence puts it."),
]
DONE = {"hold": "held", "release": "released", "veto": "vetoed", "promote": "promoted"}


def pause(
    name: options.CampaignName = None,
    reason: options.Reason = "",
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Start no new jobs. Running jobs may finish, and the driver waits, at no cost, for `sciagent resume` or `stop`.

    Paused time does not count as wall time of the campaign.
    """
    _tell("pause", name, reason, ledger, as_who, json)


def stop(
    name: options.CampaignName = None,
    reason: options.Reason = "",
    now: bool = typer.Option(False, "--now", help="Kill what runs, also elsewhere; it is run again after a resume."),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """End a running campaign: what runs may finish, its driver ends, and `sciagent resume` goes on later."""
    _tell("stop", name, reason, ledger, as_who, json, now=now)


def _tell(
    verb: str, name: str | None, reason: str, ledger: str | None, as_who: str | None, json: bool, now: bool = False
) -> None:
    from sciagent.api.campaign import Campaign
    from sciagent.campaign.people.amend_pause_stop_and_resume import instruct

    opened = open_ledger(ledger)
    campaign = Campaign.open(name, opened).name
    driver, running = instruct(opened, campaign, Verb(verb), as_who or user(), reason, now=now)
    where = f"{driver.host}:{driver.pid}" if driver else None
    if driver is None:
        state = f"nothing will take up {campaign} now"
        if verb == Verb.PAUSE:
            state = f"{campaign} is paused: its tasks are off the list"
        lines = [f"{state}; hand it in again with: sciagent run {campaign} --submit"]
    else:
        ends = "kills" if now else "finishes"
        rest = f"{ends} {plural(running, 'running job')}" if running else "has nothing running"
        lines = [f"told the driver at {driver.host} (process {driver.pid}) to {verb}; it {rest}"]
        lines.append(f"go on with: sciagent resume {campaign}")
    put_answer({"campaign": campaign, "told": verb, "driver": where, "running": running}, json, map(Line, lines))


def amend(
    name: options.CampaignName = None,
    budget: list[str] | None = typer.Option(
        None, "--budget", "-b", help="KEY=NUMBER, as wall_minutes=90, rungs.dft=20 or money=50/week; none: no limit."
    ),
    goal_count: int | None = typer.Option(None, min=1, help="Stop after hits of so many compounds."),
    workers: int | None = typer.Option(None, "--workers", "-w", min=1, help="Jobs at a time."),
    file: Path | None = typer.Option(None, "--file", "-f", help="The edited YAML, in place of these options."),
    reason: str = typer.Option("", "--reason", "-r", help="Why; it is kept with your name."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would change; write nothing."),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Change the budget, the goal's count, the limits or the workers of a campaign. A running driver takes it up.

    What changes is shown and logged. Anything else would be another campaign, and is refused.
    """
    from sciagent.api.open_ledger import pick_campaign
    from sciagent.campaign.people import amend_pause_stop_and_resume
    from sciagent.campaign.people.amend_pause_stop_and_resume import driver_line
    from sciagent.inputs.yaml_document import read_text
    from sciagent.store.campaign_state import directives

    has_options = bool(budget or goal_count or workers)
    if has_options == (file is not None):  # both, or neither
        raise UsageError("say what to change: --budget, --goal-count and --workers, or --file with the edited YAML")
    why = directives.checked_reason(reason) if reason else "amended"
    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = pick_campaign(connection, name)
    if file is not None:
        source = read_text(file)
        spec, changes = amend_pause_stop_and_resume.differences(row, source, str(file), file.resolve().parent)
    else:
        source = amend_pause_stop_and_resume.amended_source(
            row, budget=budget or (), goal_count=goal_count, workers=workers
        )
        spec, changes = amend_pause_stop_and_resume.differences(row, source, f"{row.name} (amended)", Path(row.base))
    must_write = bool(changes) and not dry_run
    if must_write:
        amend_pause_stop_and_resume.amend(opened, spec, source, as_who or user(), why, changes)
        note = driver_line(opened, row.name)
    else:
        note = "nothing was written (--dry-run)" if changes else "nothing changes"
    put_answer({"campaign": row.name, "changes": changes, "written": must_write}, json, map(Line, changes), note)


def hold(
    candidate: options.Candidate,
    reason: options.Reason,
    undo: UndoOption = False,
    campaign: options.Campaign = None,
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Start nothing more for a candidate until --undo. What runs may finish; what waits is cancelled."""
    _steer("release" if undo else "hold", candidate, reason, campaign, ledger, as_who, json)


def veto(
    candidate: options.Candidate,
    reason: options.Reason,
    undo: UndoOption = False,
    campaign: options.Campaign = None,
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Take a candidate out: nothing more is started for it, and it is no hit and no parent. Its evidence is kept.

    A queued job is cancelled; a running job may finish.
    """
    _steer("release" if undo else "veto", candidate, reason, campaign, ledger, as_who, json)


def promote(
    candidate: options.Candidate,
    reason: options.Reason,
    to: str | None = typer.Option(None, metavar="RUNG", help="The rung; default: the next."),
    campaign: options.Campaign = None,
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Run a rung on a candidate whatever the gates below have decided, before all that the scheduler would choose.

    The budget still holds, and so does the safety screen. The decision is kept with your name and reason.
    """
    _steer("promote", candidate, reason, campaign, ledger, as_who, json, to=to)


def _steer(
    verb: str,
    text: str,
    reason: str,
    campaign: str | None,
    ledger: str | None,
    as_who: str | None,
    json: bool,
    **more: str | None,
) -> None:
    """Calls the function of `steering` that has the verb's name. more: its further arguments."""
    from sciagent.api.open_ledger import pick_campaign
    from sciagent.campaign.core.create_and_open import open_campaign_for_people
    from sciagent.campaign.people import hold_release_veto_and_promote
    from sciagent.campaign.people.amend_pause_stop_and_resume import driver_line
    from sciagent.campaign.people.find_candidate import resolve
    from sciagent.store.campaign_state import directives

    why = directives.checked_reason(reason)
    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = pick_campaign(connection, campaign)
        named = resolve(connection, row, candidate_text(text), with_filtered=verb == "promote")
    act = getattr(hold_release_veto_and_promote, verb)
    result = act(open_campaign_for_people(opened, row.name), named, as_who or user(), why, **more)
    detail = f"; {result.detail}" if result.detail else ""
    lines = [f"{DONE[verb]}: {named}{detail}"]
    if result.cancelled:
        lines.append(f"  cancelled: its job at {', '.join(result.cancelled)}, which nobody had begun")
    if result.running:
        lines.append(f"  it runs at {', '.join(result.running)}: that may finish, and its evidence is kept")
    if verb == "release":
        lines.append(f"  it is {result.standing} again, at {result.rung}")
    put_answer(result, json, map(Line, lines), driver_line(opened, row.name))
