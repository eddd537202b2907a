"""`sciagent export NAME`: every candidate of a campaign with all its values."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sciagent.cli.common import LedgerOption, open_ledger, pick_campaign, say


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"


def register(app: typer.Typer) -> None:
    app.command("export", epilog="Example: sciagent export quickstart -o quickstart.csv")(export)


def export(
    name: Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; default: stdout.")] = None,
    format: Annotated[
        Format | None, typer.Option("--format", "-f", help="Default: by the file's ending, else csv.")
    ] = None,
    ledger: LedgerOption = None,
) -> None:
    """Write every candidate with its standing, its reason and each value with unit, uncertainty and level."""
    import sys

    from sciagent.report.table import write_table

    chosen = format or (Format.JSONL if output and output.suffix == ".jsonl" else Format.CSV)
    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = pick_campaign(connection, name)
        if output is None:
            write_table(connection, row, sys.stdout, str(chosen))
            return
        part = output.with_name(output.name + ".part")
        with part.open("w", encoding="utf-8", newline="") as file:
            n = write_table(connection, row, file, str(chosen))
        part.replace(output)
    say(f"{n} candidates in {output}")
