"""`sciagent engines`: the Python environments of engines that cannot share one with sciagent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sciagent.api.terminal import Line, records_table
from sciagent.cli import options
from sciagent.cli.shared import put_answer

app = typer.Typer(
    help="Python environments of engines that cannot share one with sciagent, on this machine.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment, as the verifier states it.")]


@app.command(epilog="Example: sciagent engines add mace --python ~/mace/bin/python")
def add(
    name: Name,
    python: Path = typer.Option(..., "--python", metavar="PATH", help="The interpreter of the environment."),
    json: options.Json = False,
) -> None:
    """Add an environment, or replace the one of that name. It has to have the engine and sciagent itself.

    In the environment: pip install --no-deps sciagent && pip install pydantic numpy psutil ase pymatgen
    """
    from sciagent import engines

    found = engines.add(name, python)
    answer = {"name": name, "python": str(engines.environments()[name]), **_versions(found)}
    put_answer(answer, json, [Line(f"{name}: Python {found['python']}, sciagent {found['sciagent']}")])


@app.command("list", epilog="Example: sciagent engines list --json")
def list_(json: options.Json = False) -> None:
    """List the environments, and what is wrong with them."""
    from sciagent import engines
    from sciagent.errors import UsageError

    rows = []
    for name, python in engines.environments().items():
        row: dict[str, str | None] = {"name": name, "python": str(python), **_versions({}), "error": None}
        try:
            row |= _versions(engines.inspect(python))
        except UsageError as error:
            row["error"] = str(error)
        rows.append(row)
    nothing = Line("no environment is listed; add one: sciagent engines add NAME --python PATH")
    put_answer(rows, json, [records_table(rows, "")] if rows else [nothing])


@app.command(epilog="Example: sciagent engines remove mace")
def remove(name: Name, json: options.Json = False) -> None:
    """Remove an environment from the list. Its folder stays."""
    from sciagent import engines

    engines.remove(name)
    put_answer({"name": name, "removed": True}, json, [Line(f"{name} is not listed any more")])


def _versions(found: object) -> dict[str, str | None]:
    """Returns the versions of Python and sciagent under the keys of the answer."""
    known = found if isinstance(found, dict) else {}
    return {"python_version": known.get("python"), "sciagent_version": known.get("sciagent")}
