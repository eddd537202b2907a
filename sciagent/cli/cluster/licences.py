"""`sciagent licences list | set | remove`: what all workers share, counted in the ledger."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, WhoOption, open_ledger, put, put_json
from sciagent.settings import user

NameArgument = Annotated[str, typer.Argument(help="As rungs name it in `resources`, such as gaussian.")]


app = typer.Typer(help="Licences that all workers of a ledger share.", no_args_is_help=True)


@app.command("list")
def list_(ledger: LedgerOption = None, json: JsonOption = False) -> None:
    """How many of each licence there are, and how many are in use."""
    from sciagent.store.job_queue import licences

    with open_ledger(ledger).read() as connection:
        counted = licences.every(connection)
    if json:
        put_json({"licences": [asdict(licence) for licence in counted]})
        return
    for licence in counted:
        put(f"{licence.name}: {licence.used} of {licence.total} in use; set by {licence.who} on {licence.at:%Y-%m-%d}")
    if not counted:
        put("this ledger counts no licences; to begin: sciagent licences set gaussian 4")


@app.command("set", epilog="Example: sciagent licences set gaussian 4")
def set_(
    name: NameArgument,
    total: Annotated[int, typer.Argument(min=0, help="How many may be in use at once; 0: none may start.")],
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Say how many of a licence there are. Jobs that have one already are left to finish."""
    from sciagent.errors import UsageError
    from sciagent.store.job_queue import licences

    with open_ledger(ledger, create=True).begin() as connection:
        try:
            licences.put(connection, name, total, as_who or user())
        except ValueError as error:
            raise UsageError(str(error)) from None
        (licence,) = (each for each in licences.every(connection) if each.name == name)
    if json:
        put_json(asdict(licence))
        return
    put(f"{name}: {licence.used} of {total} in use")


@app.command(epilog="Example: sciagent licences remove gaussian")
def remove(name: NameArgument, ledger: LedgerOption = None, json: JsonOption = False) -> None:
    """Count a licence no more. Jobs that need it then run only where a worker has it of its own."""
    from sciagent.errors import UnknownNameError
    from sciagent.store.job_queue import licences

    with open_ledger(ledger).begin() as connection:
        known = licences.totals(connection)
        if not licences.remove(connection, name):
            raise UnknownNameError("licence", name, known)
    if json:
        put_json({"licence": name, "removed": True})
        return
    put(f"{name} is counted no more")
