"""`sciagent jobs | cancel | retry`: list, cancel and retry the jobs of campaigns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from sciagent.api.terminal_tables_and_signals import Line, records_table, show
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import (
    Exit,
    candidate_text,
    open_ledger,
    put,
    put_answer,
    put_json,
    say,
)
from sciagent.cli.workers_campaign_dispatcher_metrics import short_owner
from sciagent.domain.outcomes_verdicts_and_reasons import Verdict
from sciagent.domain.states_and_needs import JobState, Standing
from sciagent.errors import UnknownNameError, UsageError
from sciagent.inputs.environment_variables import user

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from sciagent.campaign.people.cancel_and_retry import CandidateRetry, JobChange
    from sciagent.store.database.ledger import Ledger
    from sciagent.store.job_queue.job_lists import JobRow

GAVE_UP = ("failed", "quarantined")  # states of the jobs that `retry --campaign` tries again by default
DROPPED = "dropped"  # candidates that an error at a rung without jobs dropped; it tries them again, too
MAX_BULK = 10_000  # jobs, and candidates, that one call of `retry --campaign` tries again
MAX_NUMBER_DIGITS = 18  # digits of a job's number that a ledger takes
KEY_DIGITS = 12  # digits of a candidate's key in a line
WIDE = 110  # width in characters of a terminal that has room for all columns
JobsArgument = Annotated[list[str] | None, typer.Argument(metavar="[JOB]...", help="Numbers, as sciagent jobs shows.")]


def jobs(
    campaign: str | None = typer.Argument(None, help="Only of this campaign."),
    state: list[str] | None = typer.Option(None, "--state", "-s", help="Only in this state; may be repeated."),
    rung: str | None = typer.Option(None, metavar="LABEL", help="Only of this rung."),
    limit: int = typer.Option(20, "--limit", "-n", min=1, max=1000, help="So many at most."),
    after: int | None = typer.Option(None, metavar="JOB", help="The next ones behind this job."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Jobs: those that run first, then those that wait, the most urgent first, then what gave up, then what is done.

    Reads only. The last line counts all of them by state.
    """
    from sciagent.store.campaign_state import campaigns
    from sciagent.store.job_queue import job_lists

    states = _states(state or job_lists.STATE_ORDER, allowed=job_lists.STATE_ORDER)
    with open_ledger(ledger).read() as connection:
        names = [campaign] if campaign else campaigns.names(connection)
        ids = [campaigns.get(connection, name).id for name in names]
        rung_ids = _rung_ids(connection, ids, rung) if rung else None
        if after is not None and not job_lists.job_standings(connection, [after]):
            raise UsageError(f"--after {after}: there is no such job in this ledger")
        # one more than is shown tells whether there is a next page
        listed = job_lists.page(connection, ids, limit + 1, states=states, rung_ids=rung_ids, after=after)
        counts = job_lists.counts(connection, ids, rung_ids)
    last_shown = listed[limit - 1].id if len(listed) > limit else None  # the next page is behind it
    if json:
        put_json({"jobs": listed[:limit], "counts": counts, "next": last_shown})
        return
    _print(listed[:limit], with_campaign=campaign is None and len(names) > 1)
    put(", ".join(f"{n} {name}" for name, n in counts.items()) or "no jobs")
    if last_shown is not None:
        say(f"more: --after {last_shown}")


def cancel(
    numbers: JobsArgument = None,
    campaign: options.Campaign = None,
    candidate: str | None = typer.Option(None, metavar="CANDIDATE", help="All its jobs; named as in explain."),
    reason: options.Reason = "",
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """End jobs: a queued job is over at once, a running job is killed within seconds, with all it has started.

    Its candidate is held, for otherwise it would be chosen again: sciagent hold --undo lets it go on, sciagent retry
    runs the same job again. What an attempt has cost stays booked; a result that came first is kept.
    """
    from sciagent.campaign.core.create_and_open import open_campaign_for_people
    from sciagent.campaign.people import cancel_and_retry
    from sciagent.store.campaign_state import directives

    why = directives.checked_reason(reason) if reason else ""
    if bool(numbers) == bool(candidate):  # both, or neither
        raise UsageError("name jobs by their numbers, or a candidate with --candidate (and its --campaign)")
    opened = open_ledger(ledger)
    person = as_who or user()
    if candidate:
        ids_by_campaign = _of_candidate(opened, campaign, candidate)
    else:
        ids_by_campaign = _named(opened, _job_numbers(numbers or [], "cancel"), campaign)
    changes = []
    for name, ids in ids_by_campaign.items():
        changes += cancel_and_retry.cancel(open_campaign_for_people(opened, name), ids, person, why)
    put_answer(changes, json, _cancelled(changes))
    _fail_if_nothing_changed(changes)


def _cancelled(changes: Sequence[JobChange]) -> Iterator[Line]:
    words = {"cancelled": "cancelled; nobody had begun it", "told": "its worker is told, and ends it"}
    for change in changes:
        text = words.get(change.done, f"left as it is: {change.why}")
        yield Line(f"job {change.job_id} ({change.rung}, {change.smiles}): {text}")
    keys = list(dict.fromkeys(change.key[:KEY_DIGITS] for change in changes if change.held))
    if keys:
        yield Line(f"held: {', '.join(keys)}; to let it go on: sciagent hold {keys[0]} --undo --reason ...")


def retry(
    numbers: JobsArgument = None,
    campaign: str | None = typer.Option(None, "--campaign", "-c", help="All of this campaign that gave up."),
    state: list[str] | None = typer.Option(
        None, "--state", "-s", help="With --campaign: which; may be repeated; default: failed, quarantined, dropped."
    ),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Try jobs again that failed, were quarantined or cancelled; what they killed before counts no more.

    With --campaign, candidates that an error at a rung without jobs dropped (--state dropped) are computed again, here
    and at once, and placed anew.

    Jobs that are named go to the front. What each may cost is reserved when it is taken up. To give jobs more time or
    memory first, amend their limits: that alone tries again what ran into them.
    """
    if bool(numbers) == bool(campaign):  # both, or neither
        raise UsageError("name jobs by their numbers, or all that gave up in a campaign with --campaign")
    if state and numbers:
        raise UsageError("--state goes with --campaign; jobs that are named are tried again whatever ended them")
    opened = open_ledger(ledger)
    person = as_who or user()
    states = _retry_states(state)
    computed: list[CandidateRetry] = []
    notes: list[str] = []
    if campaign:
        if DROPPED in states:  # first, since it may fail, and nothing has been done then
            computed, notes = _retry_dropped(opened, campaign, person, is_stated=state is not None)
        job_states = [name for name in states if name != DROPPED]
        changes = _retry_jobs(opened, _gave_up(opened, campaign, job_states), person, named=False)
    else:
        ids_by_campaign = _named(opened, _job_numbers(numbers or [], "retry"), campaign=None)
        changes = _retry_jobs(opened, ids_by_campaign, person, named=True)
    n_retried = len([change for change in changes if change.done])
    lines = [*_retried(changes, n_retried, named=not campaign), *_computed_again(computed)]
    if not (lines or notes):
        lines = [Line(f"nothing to try again in campaign {campaign}: {_no_such(states)}")]
    answer = {"queued": n_retried, "left": len(changes) - n_retried, "jobs": changes, "candidates": computed}
    put_answer(answer, json, lines, *notes, *_retry_notes(opened, campaign, changes, computed))
    if not computed:
        _fail_if_nothing_changed(changes)


def _retry_jobs(
    opened: Ledger, ids_by_campaign: Mapping[str, Sequence[int]], person: str, named: bool
) -> list[JobChange]:
    """Tries jobs again. named: whether the person named each of them."""
    from sciagent.campaign.core.create_and_open import open_campaign_for_people
    from sciagent.campaign.people import cancel_and_retry

    changes = []
    for name, ids in ids_by_campaign.items():
        changes += cancel_and_retry.retry(open_campaign_for_people(opened, name), ids, person, named=named)
    return changes


def _retry_dropped(
    opened: Ledger, campaign: str, person: str, is_stated: bool
) -> tuple[list[CandidateRetry], list[str]]:
    """Computes dropped candidates of a campaign again. Returns them, and notes on why there are none.

    is_stated: whether the person asked for them by name; a driver that runs is then an error."""
    from sciagent.campaign.core.create_and_open import open_campaign_for_people
    from sciagent.campaign.people import cancel_and_retry

    built = open_campaign_for_people(opened, campaign)
    try:
        return list(cancel_and_retry.retry_dropped(built, person, MAX_BULK)), []
    except UsageError as error:
        if is_stated:
            raise
        return [], [str(error)]


def _retry_notes(
    opened: Ledger, campaign: str | None, changes: Sequence[JobChange], computed: Sequence[CandidateRetry]
) -> list[str]:
    """Returns notes on what goes on with that was tried again. campaign: None for jobs that were named."""
    from sciagent.campaign.people.amend_pause_stop_and_resume import driver_line

    notes = []
    if MAX_BULK in (len(changes), len(computed)):
        notes.append(f"these were the first {MAX_BULK}; call it again for the rest")
    retried_ids = [change.job_id for change in changes if change.done]
    names = list(_named(opened, retried_ids, campaign=None))
    if campaign and not names and any(candidate.standing == Standing.OPEN for candidate in computed):
        names = [campaign]
    notes += [driver_line(opened, name) for name in names]
    return notes


def _retry_states(given: Sequence[str] | None) -> list[str]:
    """Returns the states that `retry --campaign` takes. Raises UnknownNameError for another one."""
    from sciagent.campaign.people import cancel_and_retry

    allowed = (*cancel_and_retry.GAVE_UP, DROPPED)
    for name in given or ():
        if name not in allowed:
            raise UnknownNameError("state", name, allowed)
    return list(given or (*GAVE_UP, DROPPED))


def _no_such(states: Sequence[str]) -> str:
    """Returns a text that the campaign has nothing in these states."""
    job_states = [name for name in states if name != DROPPED]
    texts = []
    if job_states:
        texts.append(f"it has no job that is {' or '.join(job_states)}")
    if DROPPED in states:
        texts.append("no candidate was dropped with an error at a rung without jobs")
    return ", and ".join(texts)


def _retried(changes: Sequence[JobChange], n_retried: int, named: bool) -> Iterator[Line]:
    """Yields a line for each job that was left as it is, and a last line with the numbers of jobs.

    named: whether the jobs that are tried again have lines, too."""
    if not changes:
        return
    for change in changes:
        if named or change.why:
            yield Line(f"job {change.job_id} ({change.rung}, {change.smiles}): {change.why or 'is tried again'}")
    n_left = len(changes) - n_retried
    left_text = f", {n_left} left as they are" if n_left else ""
    yield Line(f"{n_retried} to be tried again{left_text}")


def _computed_again(computed: Sequence[CandidateRetry]) -> Iterator[Line]:
    """Yields a line for each candidate that an error has dropped again, and a last line with the numbers."""
    if not computed:
        return
    for candidate in computed:
        if candidate.standing == Standing.DROPPED and candidate.verdict == Verdict.ERROR:
            name = f"{candidate.candidate} ({candidate.key[:KEY_DIGITS]})"
            yield Line(f"{name}: an error again at {candidate.rung}: {candidate.reason}: {candidate.detail}")
    n_by_standing = Counter(candidate.standing for candidate in computed)
    numbers = ", ".join(f"{n} {standing}" for standing, n in sorted(n_by_standing.items()))
    what = (
        "candidate that an error had dropped was" if len(computed) == 1 else "candidates that errors had dropped were"
    )
    yield Line(f"{len(computed)} {what} computed again: {numbers}")


def _fail_if_nothing_changed(changes: Sequence[JobChange]) -> None:
    """Raises typer.Exit with code 1 if no job was changed."""
    if changes and not any(change.done for change in changes):
        raise typer.Exit(Exit.FAILED)


def _print(listed: Sequence[JobRow], with_campaign: bool) -> None:
    console = Console()
    wide = console.width >= WIDE or not console.is_terminal
    if listed:
        rows = [_cells(job, wide, with_campaign) for job in listed]
        show(records_table(rows), console=console)


def _cells(job: JobRow, wide: bool, with_campaign: bool) -> Mapping[str, object]:
    """Returns a row of the list, by column; None hides a column. wide: whether there is room for all columns."""
    from sciagent.store.job_queue.jobs import PREFERRED

    priority = "first" if job.priority >= PREFERRED else f"{job.priority:.3g}"
    numbers_of_deaths = ((job.kills, "killed"), (job.losses, "lost"))
    deaths = ", ".join(f"{n} {how}" for n, how in numbers_of_deaths if n)
    tries = f"{job.attempts} ({deaths})" if deaths else str(job.attempts)
    return {
        "job": job.id,
        "campaign": job.campaign if with_campaign else None,
        "rung": job.rung,
        "candidate": job.candidate,
        "state": _state(job, wide),
        "priority": priority if wide else None,
        "tries": tries,
        "worker": short_owner(job.worker or ""),
        "since": f"{job.since:%m-%d %H:%M}" if wide else None,
        "last": _last(job),
    }


def _last(job: JobRow) -> str:
    """Returns the progress of a running job that reports it, and the result of the last attempt of any other."""
    if job.progress is not None and job.state == "running":
        return job.progress.words
    return ": ".join(part for part in (job.outcome, job.reason) if part)


def _state(job: JobRow, wide: bool) -> str:
    if job.cancel_requested and job.state == "running":
        return "cancelling"
    if wide and job.queue and job.state == "queued":
        return f"queued at {job.queue}"
    return job.state


def _states(given: Iterable[str], allowed: Sequence[JobState]) -> list[JobState]:
    """Returns the states with the given names. Raises UnknownNameError for a state that is not allowed."""
    for name in given:
        if name not in allowed:
            raise UnknownNameError("state", name, allowed)
    return [JobState(name) for name in given]


def _rung_ids(connection: Connection, campaign_ids: Sequence[int], label: str) -> list[int]:
    """Returns the ids of the rungs with the label in the campaigns. Raises UnknownNameError if no campaign has one."""
    from sciagent.store.campaign_state import campaigns

    ladders = [rung for id_ in campaign_ids for rung in campaigns.all_rungs(connection, id_)]
    ids = [rung.id for rung in ladders if rung.name == label]
    if ids:
        return ids
    raise UnknownNameError("rung", label, {rung.name for rung in ladders})


def _gave_up(ledger: Ledger, campaign: str, states: Sequence[str]) -> dict[str, list[int]]:
    """Returns {campaign: ids of its jobs in the states}; empty without such jobs. Raises UnknownNameError."""
    from sciagent.campaign.people import cancel_and_retry
    from sciagent.store.campaign_state import campaigns
    from sciagent.store.job_queue import job_lists

    wanted = _states(states, allowed=cancel_and_retry.GAVE_UP)
    with ledger.read() as connection:
        row = campaigns.get(connection, campaign)
        stuck = job_lists.in_states(connection, row.id, wanted, MAX_BULK)
    return {row.name: [job.id for job in stuck]} if stuck else {}


def _job_numbers(given: Sequence[str], command: str) -> list[int]:
    """Returns the numbers of jobs. Raises UsageError for a text that is no number."""
    ways_out = {
        "cancel": "see: sciagent jobs; all jobs of a candidate: --candidate",
        "retry": "see: sciagent jobs; all that gave up in a campaign: sciagent retry --campaign NAME",
    }
    for text in given:
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_DIGITS):
            raise UsageError(f'jobs are named by their numbers, not "{text}"; {ways_out[command]}')
    return [int(text) for text in given]


def _named(opened: Ledger, numbers: Sequence[int], campaign: str | None) -> dict[str, list[int]]:
    """Returns {campaign: ids of the jobs with the numbers}. campaign: None means any.

    Raises UsageError for an unknown number or a job of another campaign.
    """
    from sciagent.store.campaign_state import campaigns
    from sciagent.store.job_queue import job_lists

    with opened.read() as connection:
        rows = job_lists.job_rows(connection, list(dict.fromkeys(numbers)))
        campaign_of = {job.id: job.campaign for job in rows}
        wanted = campaigns.get(connection, campaign).name if campaign else None
    missing = [str(number) for number in numbers if number not in campaign_of]
    if missing:
        raise UsageError(f"there is no job {', '.join(missing)} in this ledger; nothing was done; see: sciagent jobs")
    others = [str(number) for number, name in campaign_of.items() if name != wanted]
    if wanted and others:
        raise UsageError(f"job {', '.join(others)} is not of campaign {wanted}; nothing was done")
    jobs_by_campaign: dict[str, list[int]] = {}
    for job_id, campaign_name in campaign_of.items():
        jobs_by_campaign.setdefault(campaign_name, []).append(job_id)
    return jobs_by_campaign


def _of_candidate(opened: Ledger, campaign: str | None, text: str) -> dict[str, list[int]]:
    """Returns {campaign: ids of the candidate's queued and running jobs}. Raises UsageError if there are none."""
    from sciagent.api.open_ledger import pick_campaign
    from sciagent.campaign.people.cancel_and_retry import CANCELLABLE
    from sciagent.campaign.people.find_candidate import resolve
    from sciagent.store.campaign_state import campaigns
    from sciagent.store.job_queue import jobs as store

    with opened.read() as connection:
        row = pick_campaign(connection, campaign)
        named = resolve(connection, row, candidate_text(text))
        rung_ids = [rung.id for rung in campaigns.all_rungs(connection, row.id)]
        rows = store.of_candidate(connection, row.id, named.id, rung_ids)
    ids = [int(id_) for id_, _, state, _ in rows if state in CANCELLABLE]
    if ids:
        return {row.name: ids}
    raise UsageError(f'{named} has no job in campaign "{row.name}" that waits or runs')
