"""`sciagent dataset`: data sets for training from the episodes of campaigns, and exports for other packages."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sciagent.api.terminal_tables_and_signals import Part, plain_table
from sciagent.cli import options
from sciagent.cli.options_from_settings import settings_of, with_options
from sciagent.cli.output_logging_and_given_structures import open_ledger, plural, put_answer
from sciagent.domain.safe_text_and_durations import Paragraph
from sciagent.training.settings import DatasetKind, DatasetSettings

if TYPE_CHECKING:
    from sciagent.training.command_answers import BuiltDataset, ExportedDataset

CLEAR_LINE = "\r\x1b[K"  # moves the cursor of a terminal to the start of the line, and empties the line
app = typer.Typer(help="Data sets for training from the episodes of campaigns.", no_args_is_help=True)


class ExportTo(StrEnum):
    TRL_SFT = "trl-sft"
    TRL_DPO = "trl-dpo"
    TRL_KTO = "trl-kto"
    TRL_GRPO = "trl-grpo"
    VERL = "verl"
    SKYRL = "skyrl"
    HUGGINGFACE = "huggingface"


@app.callback()
def _group() -> None:
    """Data sets for training from the episodes of campaigns."""


@app.command(epilog="Example: sciagent dataset build sft --campaign quickstart_llm --out sft")
@with_options(DatasetSettings)
def build(
    kind: DatasetKind = typer.Argument(
        help="rows: token ids with advantages; sft: verified turns; hindsight: failures under the goal that they "
        "achieved, and hints; preference: pairs of answers to one prompt; unpaired: answers with a label, good or not; "
        "skill: answers without the proposer's skills, and their texts for a teacher."
    ),
    *,
    out: Path = typer.Option(..., "--out", "-o", metavar="FOLDER", help="A new or empty folder."),
    stated: Mapping[str, Any],
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Write a folder with train.parquet, test.parquet and a card, README.md.

    All episodes of a goal are in one split. Episodes that were made to evaluate a model are left out.
    """
    from sciagent.report.export.ro_crate_and_rerun_files import licence
    from sciagent.training.dataset_building import build as build_dataset

    command = shlex.join(["sciagent", *sys.argv[1:]])
    settings = settings_of(DatasetSettings, stated, kind=kind, command=command)
    if settings.license is not None:
        licence(settings.license)  # raises UsageError for a licence that is not known
    progress = _show if sys.stderr.isatty() else None
    answer = build_dataset(open_ledger(ledger), settings, out, progress)
    if sys.stderr.isatty():
        sys.stderr.write(CLEAR_LINE)
    put_answer(answer, json, _parts(answer))


@app.command(epilog="Example: sciagent dataset export sft --to trl-sft --out sft-trl")
def export(
    folder: Path = typer.Argument(help="A folder that `dataset build` wrote."),
    to: ExportTo = typer.Option(..., help="What is to read it."),
    out: Path = typer.Option(..., "--out", "-o", metavar="FOLDER", help="A new or empty folder."),
    json: options.Json = False,
) -> None:
    """Write a data set in the form that a package for training reads.

    From sft and hindsight: trl-sft, verl, skyrl. From rows: trl-grpo, verl, skyrl. From preference: trl-dpo. From
    unpaired: trl-kto. From all: huggingface.
    """
    from sciagent.training.exports.exporting import export as export_dataset

    command = shlex.join(["sciagent", *sys.argv[1:]])
    answer = export_dataset(folder, to.value, out, command)
    put_answer(answer, json, _exported(answer))


def _exported(answer: ExportedDataset) -> Iterator[Part]:
    yield Paragraph(f"{answer.folder}: {answer.source}, as {answer.format}")
    yield _numbers("file", "rows", answer.files)
    if answer.left_out:
        yield _numbers("left out", "number", answer.left_out)
    yield Paragraph(f"{answer.folder}/README.md says how to read it, and where it comes from")


def _show(campaign: str, n_done: int, n_episodes: int) -> None:
    """Shows the progress on a terminal, in one line."""
    sys.stderr.write(f"{CLEAR_LINE}{campaign}: {n_done} of {plural(n_episodes, 'episode')}")
    sys.stderr.flush()


def _parts(answer: BuiltDataset) -> Iterator[Part]:
    rows = ", ".join(f"{n} {split}" for split, n in answer.rows.items())
    yield Paragraph(
        f"{answer.folder}: {rows}, from {plural(answer.episodes, 'episode')} up to watermark {answer.watermark}"
    )
    if answer.left_out:
        yield _numbers("left out", "number", answer.left_out)
    yield Paragraph(f"{answer.folder}/README.md says what is in it and what is missing")


def _numbers(name_column: str, number_column: str, numbers: Mapping[str, int]) -> Part:
    """Returns a table of numbers by name."""
    table = plain_table(name_column, number_column)
    for name, n in numbers.items():
        table.add_row(name, str(n))
    return table
