"""`sciagent export NAME`: a campaign's candidates or proposals, for other programs."""

from __future__ import annotations

import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sciagent.cli.shared.common import LedgerOption, open_ledger, pick_campaign, say, who


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"
    SDF = "sdf"
    PARQUET = "parquet"
    ASE = "ase"
    ROCRATE = "rocrate"


class What(StrEnum):
    CANDIDATES = "candidates"
    PROPOSALS = "proposals"


ENDINGS = {
    ".jsonl": Format.JSONL,
    ".sdf": Format.SDF,
    ".parquet": Format.PARQUET,
    ".db": Format.ASE,
    ".zip": Format.ROCRATE,
}
TEXT = (Format.CSV, Format.JSONL, Format.SDF)
OF_PROPOSALS = (Format.CSV, Format.JSONL, Format.PARQUET)


def register(app: typer.Typer) -> None:
    app.command("export", epilog="Example: sciagent export quickstart -o quickstart.csv")(export)


def export(
    name: Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file (RO-Crate: a folder or .zip); default: stdout.")
    ] = None,
    format: Annotated[
        Format | None, typer.Option("--format", "-f", help="Default: by the file's ending, else csv.")
    ] = None,
    what: Annotated[
        What, typer.Option("--what", help="Proposals: all that was handed in, unreadable texts too.")
    ] = What.CANDIDATES,
    authors: Annotated[
        list[str] | None,
        typer.Option("--author", metavar="NAME", help='RO-Crate: "NAME" or "NAME <ORCID URL>"; default: you.'),
    ] = None,
    license: Annotated[
        str | None, typer.Option("--license", metavar="LICENCE", help="RO-Crate: SPDX identifier or URL.")
    ] = None,
    ledger: LedgerOption = None,
) -> None:
    """Write every candidate with its standing, its reason and each value with unit, uncertainty and level."""
    from sciagent.errors import UsageError

    chosen = format or (ENDINGS.get(output.suffix.lower(), Format.CSV) if output else Format.CSV)
    if what is What.PROPOSALS and chosen not in OF_PROPOSALS:
        raise UsageError(f"--what proposals goes with --format {', '.join(OF_PROPOSALS)}, not {chosen}")
    if output is None and chosen not in TEXT:
        raise UsageError(f"--format {chosen} is not written to a terminal: name a file with --output")
    if output is not None and not output.parent.is_dir():
        raise UsageError(f"{output}: the folder {output.parent} does not exist")
    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = pick_campaign(connection, name)
        if chosen is Format.ROCRATE and output is not None:
            _crate(opened, connection, row, output, authors or [who()], license)
        elif chosen in TEXT:
            _text(opened, connection, row, output, chosen, what)
        elif output is not None:
            _binary(opened, connection, row, output, chosen, what)


def _text(ledger: Any, connection: Any, row: Any, output: Path | None, chosen: Format, what: What) -> None:
    import sys

    from sciagent.report.export.sdf import write_sdf
    from sciagent.report.parts import table

    def write(file: Any) -> str:
        if chosen is Format.SDF:
            n, solid = write_sdf(connection, row, ledger.artifacts, file)
            return f"{n} molecules, {solid} of them in three dimensions,"
        write_rows = table.write_jsonl if chosen is Format.JSONL else table.write_csv
        n = write_rows(connection, row, file, proposed=what is What.PROPOSALS)
        return f"{n} {what}"

    if output is None:
        write(sys.stdout)
        return
    part = output.with_name(f".{output.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            said = write(file)
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
    say(f"{said} in {output}")


def _binary(ledger: Any, connection: Any, row: Any, output: Path, chosen: Format, what: What) -> None:
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".export-") as folder:
        part = Path(folder) / "part"
        if chosen is Format.ASE:
            from sciagent.report.export.ase_database import write_ase

            n, without = write_ase(connection, row, ledger.artifacts, part)
            said = f"{n} candidates with a geometry in {output}; {without} without one are left out"
        else:
            from sciagent.report.export import parquet

            write = parquet.write_candidates if what is What.CANDIDATES else parquet.write_proposals
            said = f"{write(connection, row, part)} {what} in {output}"
        part.replace(output)
    say(said)


def _crate(ledger: Any, connection: Any, row: Any, output: Path, authors: list[str], license: str | None) -> None:
    from sciagent.report.export.crate import author, licence, write_crate

    url, people = licence(license), [author(one) for one in authors]
    n = write_crate(connection, row, ledger.artifacts, output, people, url)
    say(f"{n} files described in {output}")
