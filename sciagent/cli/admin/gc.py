"""`sciagent gc`: shows files that are no longer needed, and removes them with --delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from sciagent.cli.shared import options
from sciagent.cli.shared.common import open_ledger, put, put_json, say
from sciagent.errors import UsageError
from sciagent.settings import user

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
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Clear up: artifact files that no evidence names, scratch folders of dead workers, checkpoints of finished jobs.

    Evidence is never removed. A file that goes for its age is noted with who, when and why, and explain says so.
    Nothing younger than an hour is touched, so a campaign may run meanwhile.
    """
    from sciagent.campaign.people import housekeeping
    from sciagent.store.campaign_state import directives

    opened = open_ledger(ledger)
    waste_items, n_named, n_unnamed = housekeeping.find_waste(opened, keep_days)
    sizes = {kind: [waste.size for waste in waste_items if waste.kind == kind] for kind in KINDS}
    unnamed = len(sizes["unnamed"])
    if delete and not mine and unnamed > max(10, n_named):
        raise UsageError(
            f"{unnamed} of {n_named + n_unnamed} files in {opened.artifacts.root} are named by no row of this "
            "ledger: another ledger may keep its files there. If none does, say so with --mine"
        )
    removed = removed_bytes = 0
    if delete:
        why = directives.reason(reason or _default_reason(keep_days))
        removed, removed_bytes = housekeeping.remove_waste(opened, waste_items, as_who or user(), why)
    total = sum(map(sum, sizes.values()))
    if json:
        shown = waste_items[:MAX_SHOWN]
        put_json(
            {
                "deleted": delete,
                "removed": removed,
                "removed_bytes": removed_bytes,
                "bytes": total,
                "kinds": {kind: {"n": len(each), "bytes": sum(each)} for kind, each in sizes.items()},
                "artifacts": {"named": n_named, "unnamed": n_unnamed},
                "items": [{"kind": w.kind, "path": str(w.path), "bytes": w.size, "why": w.why} for w in shown],
            }
        )
        return
    _print(sizes, waste_items, show)
    if delete:
        say(f"removed {removed} of {len(waste_items)}, {decimal(removed_bytes)}")
    elif waste_items:
        say(f"{decimal(total)} would go; nothing was removed. Remove it with --delete")
    else:
        say("there is nothing to clear up")


def _default_reason(keep_days: float | None) -> str:
    return "cleared up" if keep_days is None else f"cleared up after {keep_days:g} days"


def _print(sizes: Mapping[str, Sequence[int]], waste_items: Sequence[Waste], show: bool) -> None:
    """Prints a line for each kind, and with `show` one for each file and folder. sizes: {kind: sizes in bytes}."""
    for kind in filter(sizes.get, KINDS):
        put(f"{len(sizes[kind]):>7}  {decimal(sum(sizes[kind])):>9}  {KINDS[kind]}")
    for waste in waste_items[:MAX_SHOWN] if show else ():
        put(f"  {waste.path}  {decimal(waste.size)}  {waste.why}")
    if show and len(waste_items) > MAX_SHOWN:
        put(f"  and {len(waste_items) - MAX_SHOWN} more")
