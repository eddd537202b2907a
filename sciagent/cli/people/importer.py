"""`sciagent import FILE`: measured or computed values into the ledger."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json, say
from sciagent.errors import UsageError
from sciagent.settings import user

_VALUE = re.compile(r"(?P<column>[^=]+)=(?P<property>[a-z0-9_]+)(\[(?P<unit>[^\]]+)\])?")


def import_(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header.")],
    value: Annotated[
        list[str], typer.Option("--value", help="COLUMN=PROPERTY[UNIT]; UNIT may name a column. Repeat it.")
    ],
    method: Annotated[str, typer.Option("--method", help="How it was obtained: experiment, B3LYP, GFN2-xTB, …")],
    basis: Annotated[str, typer.Option("--basis")] = "",
    phase: Annotated[str, typer.Option("--phase", help="gas, water, solid, …")] = "",
    uncertainty: Annotated[
        list[str] | None,
        typer.Option("--uncertainty", help="COLUMN=NUMBER or COLUMN=COLUMN; standard uncertainty, k = 1."),
    ] = None,
    column: Annotated[str, typer.Option("--column", help="The column with the structures.")] = "smiles",
    parent: Annotated[
        bool, typer.Option("--parent", help="Keep the parent molecule of salts; default: refuse them.")
    ] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad rows out; default: import nothing.")] = False,
    revise: Annotated[
        str | None, typer.Option("--revise", metavar="WHY", help="Supersede values that changed.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file; write nothing.")] = False,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """Take measured or computed values from a CSV as evidence, all of it or nothing. `< 0.1` is a censored value."""
    from sciagent.campaign.people.importing import import_file
    from sciagent.domain.properties import Level

    report = import_file(
        open_ledger(ledger, create=True),
        file,
        columns=_columns(value, uncertainty or []),
        level=Level(method, basis, phase),
        structure=column,
        standardise="parent" if parent else "refuse",
        who=user(),
        skip_bad=skip_bad,
        revise=revise,
        dry_run=dry_run,
    )
    for fault in report.faults[:50]:
        say(f"left out: {fault}")
    if json:
        put_json(vars(report))
        return
    done = "would be recorded" if dry_run else f"{report.recorded} recorded, {report.known} known already"
    say(f"{report.rows} rows: {done}, {len(report.faults)} left out, {report.empty} empty cells")


def _columns(values: list[str], uncertainties: list[str]) -> list[Any]:
    from sciagent.campaign.people.importing import Column
    from sciagent.domain.properties import properties

    spread = {}
    for text in uncertainties:
        name, _, given = text.partition("=")
        if not given:
            raise UsageError(f'--uncertainty "{text}": write COLUMN=NUMBER or COLUMN=COLUMN')
        spread[name] = given
    columns = []
    for text in values:
        match = _VALUE.fullmatch(text)
        if match is None:
            raise UsageError(f"--value \"{text}\": write COLUMN=PROPERTY[UNIT], such as 'gap=homo_lumo_gap[eV]'")
        name, prop = match["column"], properties()[match["property"]]
        if match["unit"] is None and prop.unit != "1":
            raise UsageError(
                f"--value {text}: say the unit of {prop.name}, or the column that has it: {text}[{prop.unit}]; "
                f"it takes: {', '.join(prop.units)}"
            )
        columns.append(Column(name, match["property"], match["unit"], spread.pop(name, None)))
    if spread:
        raise UsageError(f"--uncertainty names {', '.join(spread)}, which no --value has")
    return columns
