"""`sciagent gc`: what nobody needs any more, shown first, removed when told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, WhoOption, open_ledger, put, put_json, say, who

if TYPE_CHECKING:
    from sciagent.campaign.people.housekeeping import Waste

KINDS = {
    "unnamed": "artifact files that no evidence names",
    "partial": "writes that were killed half way",
    "old": "artifact files of old evidence (hits keep theirs)",
    "worker": "scratch folders of dead workers",
    "foreign": "scratch folders that another host has left for a week",
    "checkpoint": "checkpoints of jobs that are over",
}
MAX_SHOWN = 1000


def register(app: typer.Typer) -> None:
    app.command("gc", epilog="Example: sciagent gc --keep-days 90 --delete --reason 'the disk is full'")(gc)


def gc(
    keep_days: Annotated[
        float | None,
        typer.Option("--keep-days", min=0, help="Artifact files of older evidence go too; default: none for its age."),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove it; default: only show what would go.")] = False,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; it is kept with each file of evidence.")] = "",
    mine: Annotated[
        bool, typer.Option("--mine", help="The artifact folder is this ledger's alone, although most is unnamed.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="Show each file and folder.")] = False,
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Clear up: artifact files that no evidence names, scratch folders of dead workers, checkpoints of finished jobs.

    Evidence is never removed. A file that goes for its age is noted with who, when and why, and explain says so.
    Nothing younger than an hour is touched, so a campaign may run meanwhile.
    """
    from sciagent.campaign.people import housekeeping
    from sciagent.errors import UsageError
    from sciagent.store.campaign_state import directives

    opened = open_ledger(ledger)
    waste_items, count = housekeeping.find_waste(opened, keep_days)
    unnamed = sum(waste.kind == "unnamed" for waste in waste_items)
    if delete and not mine and unnamed > max(10, count.named):
        raise UsageError(
            f"{unnamed} of {count.named + count.unnamed} files in {opened.artifacts.root} are named by no row of this "
            "ledger: another ledger may keep its files there. If none does, say so with --mine"
        )
    n = size = 0
    if delete:
        why = directives.reason(reason) if reason else _why(keep_days)
        n, size = housekeeping.remove_waste(opened, waste_items, as_who or who(), why)
    if json:
        put_json(
            {
                "deleted": delete,
                "removed": n,
                "removed_bytes": size,
                "bytes": sum(waste.size for waste in waste_items),
                "kinds": _by_kind(waste_items),
                "artifacts": {"named": count.named, "unnamed": count.unnamed},
                "items": [
                    {"kind": waste.kind, "path": str(waste.path), "bytes": waste.size, "why": waste.why}
                    for waste in waste_items[:MAX_SHOWN]
                ],
            }
        )
        return
    _print(waste_items, show)
    if delete:
        say(f"removed {n} of {len(waste_items)}, {_bytes(size)}")
    elif waste_items:
        say(
            f"{_bytes(sum(waste.size for waste in waste_items))} would go; nothing was removed. Remove it with --delete"
        )
    else:
        say("there is nothing to clear up")


def _print(waste_items: Sequence[Waste], show: bool) -> None:
    """Print a line per kind; with `show` also a line per file or folder."""
    for kind, total in _by_kind(waste_items).items():
        if total["n"]:
            put(f"{total['n']:>7}  {_bytes(total['bytes']):>9}  {KINDS[kind]}")
    for waste in waste_items[:MAX_SHOWN] if show else ():
        put(f"  {waste.path}  {_bytes(waste.size)}  {waste.why}")
    if show and len(waste_items) > MAX_SHOWN:
        put(f"  and {len(waste_items) - MAX_SHOWN} more")


def _why(keep_days: float | None) -> str:
    return "cleared up" if keep_days is None else f"cleared up after {keep_days:g} days"


def _by_kind(waste_items: Sequence[Waste]) -> dict[str, dict[str, int]]:
    return {
        kind: {
            "n": sum(waste.kind == kind for waste in waste_items),
            "bytes": sum(waste.size for waste in waste_items if waste.kind == kind),
        }
        for kind in KINDS
    }


def _bytes(size: int) -> str:
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):  # noqa: B007
        if value < 1000:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
