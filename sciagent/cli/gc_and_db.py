"""`sciagent gc`: shows files that are no longer needed, and removes them with --delete.

`sciagent db upgrade | check | backup | roles`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.filesize import decimal

from sciagent.api.terminal_tables_and_signals import Line
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import Exit, open_ledger, put, put_answer, say
from sciagent.errors import UsageError
from sciagent.inputs import environment_variables
from sciagent.inputs.environment_variables import ledger_address, user

if TYPE_CHECKING:
    from sciagent.campaign.people.remove_unneeded_files import Waste


KINDS = {
    "unnamed": "artifact files that no evidence names",
    "partial": "writes that were killed half way",
    "old": "artifact files of old evidence (hits keep theirs)",
    "worker": "scratch folders of dead workers",
    "foreign": "scratch folders that another host has left for a week",
    "checkpoint": "checkpoints of jobs that are over",
}
MAX_SHOWN = 1000  # items of a list
FEW_FILES = 10  # up to this many unnamed files are removed without --mine


def gc(
    keep_days: float | None = typer.Option(None, min=0, help="Remove artifact files of older evidence, too."),
    delete: bool = typer.Option(False, "--delete", help="Remove it; default: only show what would go."),
    reason: str = typer.Option("", "--reason", "-r", help="Why; it is kept with each file of evidence."),
    mine: bool = typer.Option(
        False,
        "--mine",
        help="Confirm that no other ledger uses the artifact folder, though most of its files are unnamed.",
    ),
    show: bool = typer.Option(False, "--list", help="Show each file and folder."),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Clear up: artifact files that no evidence names, scratch folders of dead workers, checkpoints of finished jobs.

    Evidence is never removed. A file that goes for its age is noted with who, when and why, and explain says so.
    Nothing younger than an hour is touched, so a campaign may run meanwhile.
    """
    from sciagent.campaign.people import remove_unneeded_files
    from sciagent.store.campaign_state import directives

    opened = open_ledger(ledger)
    waste_items, n_named, n_unnamed = remove_unneeded_files.find_waste(opened, keep_days)
    sizes = dict[str, list[int]]()  # in bytes, by kind
    for kind in KINDS:
        sizes[kind] = [waste.size for waste in waste_items if waste.kind == kind]
    total = sum(map(sum, sizes.values()))
    n_unnamed_waste = len(sizes["unnamed"])  # a file younger than an hour is unnamed, but no waste
    is_mostly_unnamed = n_unnamed_waste > max(FEW_FILES, n_named)
    if delete and not mine and is_mostly_unnamed:
        raise UsageError(
            f"{n_unnamed_waste} of {n_named + n_unnamed} files in {opened.artifacts.root} are named by no row of this "
            "ledger: another ledger may keep its files there. If none does, say so with --mine"
        )
    removed = 0
    removed_bytes = 0
    if delete:
        default_reason = "cleared up" if keep_days is None else f"cleared up after {keep_days:g} days"
        why = directives.checked_reason(reason or default_reason)
        removed, removed_bytes = remove_unneeded_files.remove_waste(opened, waste_items, as_who or user(), why)
        note = f"removed {removed} of {len(waste_items)}, {decimal(removed_bytes)}"
    else:
        would_go = f"{decimal(total)} would go; nothing was removed. Remove it with --delete"
        note = would_go if waste_items else "there is nothing to clear up"
    answer: dict[str, Any] = {
        "deleted": delete,
        "removed": removed,
        "removed_bytes": removed_bytes,
        "bytes": total,
        "kinds": {kind: {"n": len(kind_sizes), "bytes": sum(kind_sizes)} for kind, kind_sizes in sizes.items()},
        "artifacts": {"named": n_named, "unnamed": n_unnamed},
        "items": _items(waste_items),
    }
    lines = list(_totals(sizes))
    if show:
        lines += _listed(waste_items)
    put_answer(answer, json, map(Line, lines), note)


def _totals(sizes: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yields a line for each kind of waste that was found. sizes: in bytes, by kind."""
    for kind, kind_sizes in sizes.items():
        if kind_sizes:
            yield f"{len(kind_sizes):>7}  {decimal(sum(kind_sizes)):>9}  {KINDS[kind]}"


def _items(waste_items: Sequence[Waste]) -> list[Mapping[str, str | int]]:
    shown = waste_items[:MAX_SHOWN]
    return [{"kind": w.kind, "path": str(w.path), "bytes": w.size, "why": w.why} for w in shown]


def _listed(waste_items: Sequence[Waste]) -> Iterator[str]:
    for waste in waste_items[:MAX_SHOWN]:
        yield f"  {waste.path}  {decimal(waste.size)}  {waste.why}"
    if len(waste_items) > MAX_SHOWN:
        yield f"  and {len(waste_items) - MAX_SHOWN} more"


app = typer.Typer(help="The ledger's schema.", no_args_is_help=True)


def _engine(address: str | None) -> Any:
    from sciagent.store.database.engine import connect, ledger_url

    return connect(ledger_url(ledger_address(address)))


@app.command()
def upgrade(ledger: options.Ledger = None) -> None:
    """Bring the ledger to this version's schema. A SQLite file is copied first."""
    from sciagent.store.database import migrate_and_back_up

    engine = _engine(ledger)
    before = migrate_and_back_up.current(engine)
    copy = migrate_and_back_up.upgrade(engine)
    put(f"{before or 'empty'} -> {migrate_and_back_up.current(engine)}")
    if copy:
        say(f"a copy from before is at {copy}")


@app.command(epilog="Example: sciagent db backup ledger.2026-11-22.dump")
def backup(
    file: Path = typer.Argument(help="Where it goes; refused if it is there."), ledger: options.Ledger = None
) -> None:
    """Copy the ledger as it is at this moment, while campaigns run. Copy the folder of artifacts afterwards.

    SQLite: a database file. PostgreSQL: an archive for pg_restore, made by pg_dump.
    """
    from sciagent.store.database.engine import ledger_url
    from sciagent.store.database.migrate_and_back_up import back_up

    back_up(ledger_url(ledger_address(ledger)), file)
    put(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


@app.command()
def check(ledger: options.Ledger = None, json: options.Json = False) -> None:
    """Check the ledger: the tables, the chain of what people did, and every row of evidence; exit code 1 for a fault.

    Computed evidence has to fit its seal. An act of a person has to answer for all other evidence.
    """
    from sciagent.cli.checked_evidence import check_evidence
    from sciagent.store.database import migrate_and_back_up
    from sciagent.store.database.engine import read_only, sqlite_path
    from sciagent.store.database.evidence_secret import EvidenceSecret
    from sciagent.store.database.ledger import artifacts_folder
    from sciagent.store.people import audit

    engine = _engine(ledger)
    at = migrate_and_back_up.current(engine)
    need = migrate_and_back_up.head()
    differences = migrate_and_back_up.differences(engine) if at == need else [f"at {at}, needs {need}"]
    answer: dict[str, Any] = {"current": at, "needed": need, "trail": None, "evidence": None}
    lines = [f"current {at or 'none'}, needed {need}"]
    n_faults = 0
    if at == need:
        secret = EvidenceSecret(
            environment_variables.path("SCIAGENT_ARTIFACTS") or artifacts_folder(sqlite_path(engine))
        )
        with read_only(engine) as connection:
            trail = audit.check(connection)
            evidence = check_evidence(connection, secret)
        if trail.fault is not None:
            differences.append(f"audit trail: {trail.fault}")
        n_faults = evidence.check.faults
        lines += evidence.lines
        answer |= {"trail": vars(trail), "evidence": evidence.answer}
    is_ok = not differences and not n_faults
    answer |= {"ok": is_ok, "differences": differences}
    lines += differences
    if is_ok:
        lines.append("the ledger is as it should be")
    put_answer(answer, json, map(Line, lines))
    if not is_ok:
        raise typer.Exit(Exit.FAILED)


@app.command(epilog="Example: sciagent db roles --check")
def roles(
    web: str = typer.Option("sciagent_web", "--web", metavar="ROLE", help="Role of the server of the pages."),
    worker: str = typer.Option("sciagent_worker", "--worker", metavar="ROLE", help="Role of the workers."),
    dispatcher: str = typer.Option(
        "sciagent_dispatcher", "--dispatcher", metavar="ROLE", help="Role of dispatchers, and of those who submit."
    ),
    check: bool = typer.Option(
        False, "--check", help="Compare the roles and your own login with it; exit code 1 if they differ."
    ),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Print the SQL that makes three roles in PostgreSQL, with the least that each kind of process needs.

    Run it as the owner of the tables after each `sciagent db upgrade`, and give each process a login in its role.
    """
    from sciagent.store.database import roles as database_roles
    from sciagent.store.database.engine import read_only

    names = {"web": web, "worker": worker, "dispatcher": dispatcher}
    if len(set(names.values())) < len(names):
        raise UsageError("--web, --worker and --dispatcher are three different roles")
    if not check:
        statements = list(database_roles.statements(names))
        put_answer({"sql": statements}, json, map(Line, statements))
        return
    with read_only(_engine(ledger)) as connection:
        checks = database_roles.check(connection, names)
    lines = [line for checked in checks for line in checked.lines]
    put_answer([vars(checked) for checked in checks], json, map(Line, lines))
    if any(checked.too_wide or checked.missing for checked in checks):
        raise typer.Exit(Exit.FAILED)
