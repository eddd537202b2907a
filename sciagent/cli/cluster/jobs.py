"""`sciagent jobs | cancel | retry`: the jobs of campaigns, and what a person decides about them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sciagent.cli.shared.common import (
    JsonOption,
    LedgerOption,
    WhoOption,
    open_ledger,
    pick_campaign,
    put,
    put_json,
    say,
    who,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from sciagent.campaign.people.cancelling import JobChange
    from sciagent.domain.jobs.states import JobState
    from sciagent.store.database.ledger import Ledger

GAVE_UP = ("failed", "quarantined")
MAX_BULK = 10_000
WIDE, UNBOUND = 110, 160  # columns: from which there is room for all; where nothing bounds them
JobsArgument = Annotated[list[int] | None, typer.Argument(metavar="[JOB]...", help="Numbers, as sciagent jobs shows.")]


def register(app: typer.Typer) -> None:
    app.command("jobs", epilog="Example: sciagent jobs quickstart --state failed --limit 50")(jobs)
    app.command("cancel", epilog="Example: sciagent cancel 4711 4712 --reason 'wrong charge'")(cancel)
    app.command("retry", epilog="Example: sciagent retry --campaign quickstart --state quarantined")(retry)


def jobs(
    campaign: Annotated[str | None, typer.Argument(help="Only of this one.")] = None,
    state: Annotated[
        list[str] | None, typer.Option("--state", "-s", help="Only in this state; may be repeated.")
    ] = None,
    rung: Annotated[str | None, typer.Option("--rung", metavar="LABEL", help="Only of this rung.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="So many at most.")] = 20,
    after: Annotated[int | None, typer.Option("--after", metavar="JOB", help="The next ones behind this job.")] = None,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """Jobs: those that run first, then those that wait, the most urgent first, then what gave up, then what is done.

    Reads only. The last line counts all of them by state.
    """
    from sciagent.errors import UsageError
    from sciagent.store.campaign_state import campaigns
    from sciagent.store.job_queue import job_lists

    states = _states(state, job_lists.ORDER) if state else job_lists.ORDER
    with open_ledger(ledger).read() as connection:
        names = [campaigns.get(connection, campaign).name] if campaign else campaigns.names(connection)
        ids = [campaigns.get(connection, name).id for name in names]
        mine = _rung_ids(connection, ids, rung)
        if after is not None and not job_lists.standing(connection, [after]):
            raise UsageError(f"--after {after}: there is no such job in this ledger")
        listed = job_lists.page(connection, ids, limit, states=states, rung_ids=mine, after=after)
        counted = job_lists.counts(connection, ids, mine)
        more = len(listed) == limit and bool(
            job_lists.page(connection, ids, 1, states=states, rung_ids=mine, after=listed[-1].id)
        )
    following = listed[-1].id if more else None
    if json:
        put_json({"jobs": [job._asdict() for job in listed], "counts": counted, "next": following})
        return
    _print(listed, with_campaign=campaign is None and len(names) > 1)
    put(", ".join(f"{n} {name}" for name, n in counted.items()) or "no jobs")
    if following is not None:
        say(f"more: --after {following}")


def _rung_ids(connection: Connection, campaign_ids: Sequence[int], label: str | None) -> list[int] | None:
    """Rungs of that label in these campaigns; None without a label. Raises UnknownNameError where there is none."""
    from sciagent.store.campaign_state import campaigns

    if label is None:
        return None
    ladder = [rung for id_ in campaign_ids for rung in campaigns.rungs(connection, id_)]
    ids = [rung.id for rung in ladder if rung.name == label]
    if not ids:
        raise _unknown("rung", label, {rung.name for rung in ladder})
    return ids


def cancel(
    numbers: JobsArgument = None,
    campaign: Annotated[
        str | None,
        typer.Option("--campaign", "-c", help="With --candidate: the campaign; may be left out if only one."),
    ] = None,
    candidate: Annotated[
        str | None, typer.Option("--candidate", metavar="CANDIDATE", help="All its jobs: SMILES, key, or InChIKey.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; it is kept with your name and the time.")] = "",
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """End jobs: one that waits is over at once, one that runs is killed within seconds, with all it has started.

    Its candidate is held, for otherwise it would be chosen again: sciagent release lets it go on, sciagent retry runs
    the same job again. What an attempt has cost stays booked; a result that came first is kept.
    """
    from sciagent.campaign.people import cancelling
    from sciagent.errors import UsageError
    from sciagent.store.campaign_state import directives

    why = directives.reason(reason) if reason else ""
    if bool(numbers) == bool(candidate):
        raise UsageError("name jobs by their numbers, or a candidate with --candidate (and its --campaign)")
    opened = open_ledger(ledger)
    chosen = _of_candidate(opened, campaign, candidate) if candidate else _named(opened, numbers or [], campaign)
    done: list[JobChange] = []
    for built, ids in _built(opened, chosen):
        done += cancelling.cancel(built, ids, as_who or who(), why)
    if json:
        put_json([asdict(change) for change in done])
        _nothing_done(done)
        return
    for change in done:
        what = {"cancelled": "cancelled; nobody had begun it", "told": "its worker is told, and ends it"}
        text = what.get(change.done, f"left as it is: {change.why}")
        put(f"job {change.job_id} ({change.rung}, {change.smiles}): {text}")
    if keys := list(dict.fromkeys(change.key[:12] for change in done if change.held)):
        put(f"held: {', '.join(keys)}; to let it go on: sciagent release {keys[0]} --reason ...")
    _nothing_done(done)


def retry(
    numbers: JobsArgument = None,
    campaign: Annotated[str | None, typer.Option("--campaign", "-c", help="All of this campaign that gave up.")] = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", help=f"With --campaign: which; may be repeated; default: {', '.join(GAVE_UP)}."),
    ] = None,
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Try jobs again that failed, were quarantined or cancelled; what they killed before counts no more.

    Those that are named go to the front. What each may cost is reserved when it is taken up. To give jobs more time or
    memory first, amend their limits: that alone tries again what ran into them.
    """
    from sciagent.campaign.people import cancelling
    from sciagent.errors import UsageError

    if bool(numbers) == bool(campaign):
        raise UsageError("name jobs by their numbers, or all that gave up in a campaign with --campaign")
    if state and numbers:
        raise UsageError("--state goes with --campaign; jobs that are named are tried again whatever ended them")
    opened = open_ledger(ledger)
    chosen = _gave_up(opened, campaign, state) if campaign else _named(opened, numbers or [], None)
    done: list[JobChange] = []
    builts = []
    for built, ids in _built(opened, chosen):
        done += cancelling.retry(built, ids, as_who or who(), named=not campaign)
        builts.append(built)
    again = [change for change in done if change.done]
    if json:
        put_json({"queued": len(again), "left": len(done) - len(again), "jobs": [asdict(change) for change in done]})
        _nothing_done(done)
        return
    for change in done:
        if not campaign or change.why:
            put(f"job {change.job_id} ({change.rung}, {change.smiles}): {change.why or 'is tried again'}")
    put(f"{len(again)} to be tried again" + (f", {len(done) - len(again)} left as they are" if again != done else ""))
    if len(done) >= MAX_BULK:
        say(f"these were the first {MAX_BULK}; call it again for the rest")
    _nothing_done(done)
    from sciagent.cli.people.steer import driver_line

    for built in builts if again else ():
        say(driver_line(built.ledger, built.row.name))


def _gave_up(ledger: Ledger, campaign: str, state: list[str] | None) -> dict[str, list[int]]:
    """Jobs of the campaign that gave up, or are in one of these states, by the campaign's name."""
    from sciagent.campaign.people import cancelling
    from sciagent.store.job_queue import job_lists

    states = _states(state, cancelling.GAVE_UP) if state else [s for s in cancelling.GAVE_UP if s in GAVE_UP]
    with ledger.read() as connection:
        row = pick_campaign(connection, campaign)
        stuck = job_lists.in_states(connection, row.id, states, MAX_BULK)
    return {row.name: [job.id for job in stuck]} if stuck else {}


def _print(listed: Sequence[Any], with_campaign: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:  # a file, or a pipe to less or grep
        console = Console(width=max(console.width, UNBOUND))
    wide = console.width >= WIDE
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    states = [_state(job) if wide else _state(job).partition(" ")[0] for job in listed]
    numbers = [str(job.id) for job in listed]  # what cancel and retry go by is never cut
    table.add_column("job", justify="right", no_wrap=True, min_width=max(map(len, ["job", *numbers])))
    if with_campaign:
        table.add_column("campaign", overflow="fold")
    table.add_column("rung", overflow="ellipsis", no_wrap=True, min_width=4)
    table.add_column("candidate", overflow="ellipsis", no_wrap=True, ratio=3, min_width=8)
    table.add_column("state", no_wrap=True, min_width=max(map(len, ["state", *states])))
    if wide:
        table.add_column("priority", justify="right", no_wrap=True)
    table.add_column("tries", justify="right", no_wrap=wide, min_width=5)
    table.add_column("worker", overflow="ellipsis", no_wrap=True, ratio=2, min_width=6, max_width=None if wide else 16)
    if wide:
        table.add_column("since", no_wrap=True)
    table.add_column("last", overflow="fold", ratio=3, min_width=10)
    for job, number, state in zip(listed, numbers, states, strict=True):
        words = [number, *([job.campaign] if with_campaign else []), job.rung, job.candidate, state]
        words += [*([_priority(job.priority)] if wide else []), _tries(job), short_owner(job.worker)]
        words += [*([job.since.strftime("%m-%d %H:%M")] if wide else []), _last(job)]
        table.add_row(*map(escape, words))
    if listed:
        console.print(table)


def _state(job: Any) -> str:
    where = f" at {job.queue}" if job.queue and job.state == "queued" else ""
    return "cancelling" if job.cancel_requested and job.state == "running" else job.state + where


def _priority(value: float) -> str:
    from sciagent.store.job_queue.jobs import PREFERRED

    return "first" if value >= PREFERRED else f"{value:.3g}"


def _tries(job: Any) -> str:
    """Attempts, and of these how many killed their process, or vanished with their worker."""
    more = [f"{n} {word}" for n, word in ((job.kills, "killed"), (job.losses, "lost")) if n]
    return f"{job.attempts}" + (f" ({', '.join(more)})" if more else "")


def _last(job: Any) -> str:
    if job.outcome is None:
        return ""
    return str(job.outcome) + (f": {job.reason}" if job.reason else "")


def short_owner(owner: str | None) -> str:
    """The part of a lease's owner that a person needs: the worker and its slot, or a driver's host and process."""
    if not owner:
        return ""
    return owner if "/" in owner else ":".join(owner.rsplit(":", 3)[:2])


def _states(given: Iterable[str], allowed: Sequence[JobState]) -> list[JobState]:
    from sciagent.domain.jobs.states import JobState

    for state in given:
        if state not in allowed:
            raise _unknown("state", state, map(str, allowed))
    return [JobState(state) for state in given]


def _unknown(what: str, name: str, known: Iterable[str]) -> Exception:
    from sciagent.errors import UnknownNameError

    return UnknownNameError(what, name, known)


def _named(opened: Ledger, numbers: Sequence[int], campaign: str | None) -> dict[str, list[int]]:
    """{campaign: job ids}. Raises UsageError for a number that no job has, or that is of another campaign."""
    from sciagent.errors import UsageError
    from sciagent.store.job_queue import job_lists

    with opened.read() as connection:
        campaign_of = {job.id: job.campaign for job in job_lists.rows(connection, list(dict.fromkeys(numbers)))}
        row = pick_campaign(connection, campaign) if campaign else None
    missing = [str(number) for number in numbers if number not in campaign_of]
    if missing:
        raise UsageError(f"there is no job {', '.join(missing)} in this ledger; nothing was done; see: sciagent jobs")
    if row is not None and (others := [str(k) for k, name in campaign_of.items() if name != row.name]):
        raise UsageError(f"job {', '.join(others)} is not of campaign {row.name}; nothing was done")
    by_name = dict[str, list[int]]()
    for id_, name in campaign_of.items():
        by_name.setdefault(name, []).append(id_)
    return by_name


def _of_candidate(opened: Ledger, campaign: str | None, text: str) -> dict[str, list[int]]:
    from sciagent.campaign.people.resolving import resolve
    from sciagent.errors import UsageError

    with opened.read() as connection:
        row = pick_campaign(connection, campaign)
        named = resolve(connection, row, text)
        job_ids = _live_jobs(connection, row.id, named.id)
    if not job_ids:
        raise UsageError(f'{named} has no job in campaign "{row.name}" that waits or runs')
    return {row.name: job_ids}


def _live_jobs(connection: Connection, campaign_id: int, candidate_id: int) -> list[int]:
    from sciagent.campaign.people.cancelling import CANCELLABLE
    from sciagent.store.campaign_state import campaigns
    from sciagent.store.job_queue import jobs as store

    rung_ids = [rung.id for rung in campaigns.rungs(connection, campaign_id)]
    rows = store.of_candidate(connection, campaign_id, candidate_id, rung_ids)
    return [int(id_) for id_, _, state, _ in rows if state in CANCELLABLE]


def _built(opened: Ledger, chosen: dict[str, list[int]]) -> Iterable[tuple[Any, list[int]]]:
    from sciagent.campaign.core.build import open_for_people

    for name, ids in chosen.items():
        yield open_for_people(opened, name), ids


def _nothing_done(done: Sequence[JobChange]) -> None:
    """Exit code 1 where jobs were named and not one of them could be helped."""
    if done and not any(change.done for change in done):
        raise typer.Exit(1)
