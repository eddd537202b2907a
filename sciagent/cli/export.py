"""`sciagent export NAME`: writes a campaign's candidates or proposals for other programs."""

from __future__ import annotations

import sys
import tempfile
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import open_ledger, say
from sciagent.errors import UsageError
from sciagent.inputs.environment_variables import user

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from sciagent.store.campaign_state.campaigns import CampaignRow
    from sciagent.store.database.ledger import ArtifactStore


class Format(StrEnum):
    """The format of an export."""

    CSV = "csv"
    XLSX = "xlsx"
    JSONL = "jsonl"
    SDF = "sdf"
    CIF = "cif"
    ENTRIES = "entries"
    PARQUET = "parquet"
    ASE = "ase"
    ROCRATE = "rocrate"


class What(StrEnum):
    """The rows of an export."""

    CANDIDATES = "candidates"
    PROPOSALS = "proposals"
    SERIES = "series"


ENDINGS = {f".{format}": format for format in Format} | {
    ".db": Format.ASE,
    ".zip": Format.ROCRATE,
    ".json": Format.ENTRIES,
}
TEXT_FORMATS = (Format.CSV, Format.JSONL, Format.SDF, Format.CIF, Format.ENTRIES)  # may go to a terminal
WITH_COLUMNS = (Format.CSV, Format.XLSX)  # go with --columns
OF_PROPOSALS = (Format.CSV, Format.JSONL, Format.PARQUET)  # for proposals, too


def export(
    name: options.CampaignName = None,
    output: Path | None = typer.Option(
        None, "--output", "-o", help="A file, or a folder for RO-Crate; default: stdout."
    ),
    format: Format | None = typer.Option(
        None, "--format", "-f", help="Default: by the file's ending; csv without one."
    ),
    what: What = typer.Option(
        What.CANDIDATES, help="Proposals: all that was handed in. Series: a folder of csv files."
    ),
    columns: str | None = typer.Option(
        None, "--columns", metavar="all|NAME,...", help="csv, xlsx: all, or such as smiles,dft.dipole; default: short."
    ),
    hits: bool = typer.Option(False, "--hits", help="Hits only."),
    rows: bool = typer.Option(False, "--rows", help="csv, xlsx: a line for each row of the campaign's input files."),
    authors: list[str] | None = typer.Option(
        None, "--author", metavar="NAME", help='RO-Crate: "NAME" or "NAME <ORCID URL>"; default: you.'
    ),
    license: str | None = typer.Option(None, metavar="LICENCE", help="RO-Crate: SPDX identifier or URL."),
    ledger: options.Ledger = None,
) -> None:
    """Write the candidates: objectives first, each value with unit, uncertainty and level.

    csv and xlsx have the names, the objectives and what became of each candidate; --columns all adds all other values.
    """
    from sciagent.api.open_ledger import pick_campaign
    from sciagent.report.export.ro_crate_and_rerun_files import author, licence, write_crate

    ending = output.suffix.lower() if output else ""
    if format is None and ending and ending not in ENDINGS:
        known = ", ".join(sorted(ENDINGS))
        raise UsageError(f'no format is known by the ending "{ending}" ({known} are); say which with --format')
    chosen = format or ENDINGS.get(ending, Format.CSV)
    wanted = Wanted(chosen, what, columns, hits, rows)
    _check(wanted, output)
    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = pick_campaign(connection, name)
        if what is What.SERIES and output is not None:
            say(_write_series(opened.artifacts, connection, row, hits, output))
        elif output is None:
            _write(opened.artifacts, connection, row, wanted, path=None)
        elif chosen is Format.ROCRATE:
            url = licence(license)
            people = [author(text) for text in authors or [user()]]
            n = write_crate(connection, row, opened.artifacts, output, people, url)
            say(f"{n} files described in {output}")
        else:
            with tempfile.TemporaryDirectory(dir=output.parent, prefix=".export-") as temporary:
                part = Path(temporary) / "part"
                summary = _write(opened.artifacts, connection, row, wanted, part)
                part.replace(output)
            say(f"{summary} in {output}")


class Wanted(NamedTuple):
    """The contents of an export, as the options of the command choose them."""

    format: Format
    what: What
    columns: str | None
    """`all`, names with commas, or None for the short table."""
    hits: bool
    """Whether only hits are written."""
    rows: bool
    """Whether each row of the campaign's input files has a line of its own."""


def _check(wanted: Wanted, output: Path | None) -> None:
    """Raises UsageError for options that do not go together, and for a file that cannot be written."""
    chosen = wanted.format
    of_proposals = wanted.what is What.PROPOSALS
    if wanted.what is What.SERIES:
        _check_series(wanted, output)
    if of_proposals and chosen not in OF_PROPOSALS:
        raise UsageError(f"--what proposals goes with --format {', '.join(OF_PROPOSALS)}, not {chosen}")
    if wanted.columns is not None and (of_proposals or chosen not in WITH_COLUMNS):
        formats = " or ".join(WITH_COLUMNS)
        raise UsageError(f"--columns goes with candidates as {formats}; other formats have all values")
    if wanted.rows and (wanted.what is not What.CANDIDATES or chosen not in WITH_COLUMNS):
        raise UsageError(
            f"--rows goes with candidates as {' or '.join(WITH_COLUMNS)}; others have one entry for each candidate"
        )
    if wanted.hits and (of_proposals or chosen is Format.ROCRATE):
        raise UsageError("--hits goes with candidates in a table or a file of structures")
    if output is not None:
        _check_output(output)
    elif chosen not in TEXT_FORMATS:
        raise UsageError(f"--format {chosen} is not written to a terminal: name a file with --output")


def _check_series(wanted: Wanted, output: Path | None) -> None:
    """Raises UsageError unless the series are to be written as csv into a new folder."""
    is_new = output is not None and not output.exists()
    is_csv = wanted.format is Format.CSV and wanted.columns is None
    if not (is_new and is_csv):
        raise UsageError("--what series writes csv files into a new folder: name it with --output")


def _check_output(output: Path) -> None:
    """Raises UsageError if the file cannot be written."""
    if not output.parent.is_dir():
        raise UsageError(f"{output}: the folder {output.parent} does not exist")
    if output.exists() and not (output.is_file() or output.is_dir()):  # a device or a pipe
        raise UsageError(f"{output} is no regular file; without --output, text goes to stdout")


def _write_series(artifacts: ArtifactStore, connection: Connection, row: CampaignRow, hits: bool, folder: Path) -> str:
    """Writes the series into a new folder. Returns what was written."""
    from sciagent.report.export.spreadsheets import write_series

    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".export-") as temporary:
        part = Path(temporary) / "series"
        part.mkdir()
        n = write_series(connection, row, artifacts, part, hits)
        part.rename(folder)
    return f"{n} series in {folder}"


def _write(
    artifacts: ArtifactStore, connection: Connection, row: CampaignRow, wanted: Wanted, path: Path | None
) -> str:
    """Writes a file. Returns what was written. path: None means stdout, for a text format only."""
    from sciagent.report.export import parquet_tables
    from sciagent.report.export.computed_entries import write_entries
    from sciagent.report.export.spreadsheets import TableSelection, write_csv, write_excel
    from sciagent.report.export.structure_files import write_ase, write_cif, write_sdf
    from sciagent.report.parts.export_rows import write_jsonl

    chosen, what, columns, hits, rows = wanted
    selection = TableSelection(columns, hits, rows)
    lines = "rows of input files" if rows else str(what)
    of_proposals = what is What.PROPOSALS
    if path and chosen is Format.ASE:
        n, n_left_out = write_ase(connection, row, artifacts, path, hits)
        return f"{n} candidates with a geometry ({n_left_out} without a geometry are left out)"
    if path and chosen is Format.XLSX:
        return f"{write_excel(connection, row, path, selection)} {lines}"
    if path and chosen is Format.PARQUET:
        if of_proposals:
            table_rows = parquet_tables.proposal_rows(connection, row)
        else:
            table_rows = parquet_tables.candidate_rows(connection, row, hits)
        return f"{table_rows.write(path)} {what}"
    output = path.open("w", encoding="utf-8", newline="") if path else nullcontext(sys.stdout)
    with output as file:
        if chosen is Format.SDF:
            n, n_three_dimensional = write_sdf(connection, row, artifacts, file, hits)
            return f"{n} molecules, {n_three_dimensional} of them in three dimensions,"
        if chosen is Format.CIF:
            n, n_relaxed = write_cif(connection, row, artifacts, file, hits)
            return f"{n} crystals, {n_relaxed} of them with a relaxed cell,"
        if chosen is Format.ENTRIES:
            n, n_left_out = write_entries(connection, row, artifacts, file, hits)
            return f"{n} relaxed crystals with energies ({n_left_out} candidates without are left out)"
        if chosen is Format.JSONL:
            return f"{write_jsonl(connection, row, file, of_proposals, hits, artifacts)} {what}"
        return f"{write_csv(connection, row, file, of_proposals, selection)} {lines}"
