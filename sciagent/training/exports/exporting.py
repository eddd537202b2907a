"""Exports a data set into a folder: the files of a format, and a card.

`FORMATS` has the formats to which data sets can be exported. `card` makes README.md, with the licence and the origin of
the data set, and the data set's own card. `export` writes the folder.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from sciagent import __version__
from sciagent.errors import UnknownNameError, UsageError
from sciagent.training.command_answers import ExportedDataset, check_empty
from sciagent.training.dataset_building import table
from sciagent.training.exports.formats import (
    huggingface,
    sft_conversations,
    trl_pairs_labels_and_token_rows,
    verl_and_skyrl_token_rows,
)
from sciagent.training.exports.read_dataset_and_write_trainer_rows import UNKNOWN_LICENCE, DatasetFolder
from sciagent.training.settings import DATASET_KINDS, DatasetKind

Write = Callable[[DatasetFolder, Path, Counter[str]], Mapping[str, int]]
"""Writes the files of an export into an empty folder; returns the number of rows by file. The counter takes the numbers
of what is left out, by reason."""


class Exporter(NamedTuple):
    """The export of one kind of data set to one format."""

    write: Write
    usage: str
    """Markdown for the card: the code by which the package reads the files. `FOLDER` stands for the folder."""
    splits: Mapping[str, str] = {"train": "train.parquet", "test": "test.parquet"}
    """File of each split, for `load_dataset` of Hugging Face's `datasets`."""


SFT = Exporter(sft_conversations.write_trl, sft_conversations.TRL_USAGE)
VERL_SFT = Exporter(sft_conversations.write_verl, sft_conversations.VERL_USAGE)
SKYRL_SFT = Exporter(sft_conversations.write_skyrl, sft_conversations.SKYRL_USAGE)
TRL_DPO = Exporter(trl_pairs_labels_and_token_rows.write_pairs_or_labels, trl_pairs_labels_and_token_rows.DPO_USAGE)
TRL_KTO = Exporter(trl_pairs_labels_and_token_rows.write_pairs_or_labels, trl_pairs_labels_and_token_rows.KTO_USAGE)
TRL_GRPO = Exporter(trl_pairs_labels_and_token_rows.write_token_rows, trl_pairs_labels_and_token_rows.GRPO_USAGE)
VERL_ROWS = Exporter(verl_and_skyrl_token_rows.write_verl, verl_and_skyrl_token_rows.VERL_USAGE)
SKYRL_ROWS = Exporter(verl_and_skyrl_token_rows.write_skyrl, verl_and_skyrl_token_rows.SKYRL_USAGE)

FORMATS: Mapping[str, Mapping[DatasetKind, Exporter]] = {
    "trl-sft": {"sft": SFT, "hindsight": SFT},
    "trl-dpo": {
        "preference": Exporter(
            trl_pairs_labels_and_token_rows.write_pairs_or_labels, trl_pairs_labels_and_token_rows.DPO_USAGE
        )
    },
    "trl-kto": {
        "unpaired": Exporter(
            trl_pairs_labels_and_token_rows.write_pairs_or_labels, trl_pairs_labels_and_token_rows.KTO_USAGE
        )
    },
    "trl-grpo": {
        "rows": Exporter(trl_pairs_labels_and_token_rows.write_token_rows, trl_pairs_labels_and_token_rows.GRPO_USAGE)
    },
    "verl": {"rows": VERL_ROWS, "sft": VERL_SFT, "hindsight": VERL_SFT},
    "skyrl": {"rows": SKYRL_ROWS, "sft": SKYRL_SFT, "hindsight": SKYRL_SFT},
    "huggingface": {kind: Exporter(huggingface.write, huggingface.USAGE) for kind in DATASET_KINDS},
}
"""Exporters by format and kind of data set."""


def card(source: DatasetFolder, exported: ExportedDataset, exporter: Exporter, command: str) -> str:
    """Returns the card. Its first lines are YAML, by which `datasets.load_dataset` finds the files."""
    splits_with_rows = {split: name for split, name in exporter.splits.items() if exported.files.get(name)}
    command_block = ["```sh", command, "```", ""] if command else []
    lines = [
        "---",
        *_licence(source.licence),
        "tags:",
        "- chemistry",
        "- sciagent",
        *_configurations(splits_with_rows, exported),
        "---",
        f"# {source.kind} for {exported.format}",
        "",
        f"Exported by sciagent {__version__} from a data set of `{source.kind}`, whose card follows below.",
        "",
        *command_block,
        *table(("file", "rows"), list(exported.files.items())),
        *table(("left out", "number"), list(exported.left_out.items())),
        "## How to read it",
        "",
        exporter.usage.replace("FOLDER", exported.folder).strip(),
        "",
        "## The data set",
        "",
        *_with_deeper_headings(source.card),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _licence(licence: str) -> list[str]:
    """Returns the lines for a licence as Hugging Face names it: in small letters, or `other` with a link."""
    if licence == UNKNOWN_LICENCE:
        return [f"license: {UNKNOWN_LICENCE}"]
    if "://" in licence:
        return ["license: other", f"license_link: {licence}"]
    return [f"license: {licence.lower()}"]


def _configurations(splits: dict[str, str], exported: ExportedDataset) -> list[str]:
    """Returns the configurations: the rows by default, and one for the tables of each kind."""
    lines = ["configs:"]
    if splits:
        lines += ["- config_name: default", "  data_files:"]
    lines += [f"  - split: {split}\n    path: {name}" for split, name in splits.items()]
    tables: dict[str, list[str]] = {}  # lines with the files, by kind of table
    for name in exported.files:
        if name.startswith("tables/"):
            _, _, kind = PurePosixPath(name).stem.rpartition(".")  # the stem is CAMPAIGN.KIND
            tables.setdefault(kind, []).append(f"    - {name}")
    for kind, file_lines in tables.items():
        lines += [f"- config_name: {kind}", "  data_files:", "  - split: train", "    path:", *file_lines]
    return lines


def _with_deeper_headings(text: str) -> list[str]:
    """Returns the lines of a card with its headings two levels deeper."""
    is_code = False
    lines = []
    for line in text.splitlines():
        if line.startswith("```"):
            is_code = not is_code
        is_heading = line.startswith("#") and not is_code
        lines.append(f"##{line}" if is_heading else line)
    return lines


def export(source: Path, to: str, folder: Path, command: str = "") -> ExportedDataset:
    """Exports the data set in a folder to a new or empty folder. An error leaves nothing behind.

    to: a name in `FORMATS`. command: the command line, for the card. Raises UsageError for what is no data set, for a
    kind that the format does not take, for a data set without a row for it, or for a folder with files;
    UnknownNameError for an unknown format.
    """
    if to not in FORMATS:
        raise UnknownNameError("format", to, FORMATS)
    dataset = DatasetFolder(source)
    if dataset.kind not in FORMATS[to]:
        fits = [name for name, kinds in FORMATS.items() if dataset.kind in kinds]
        raise UsageError(
            f"{source} is a data set of {dataset.kind}; {to} takes {' or '.join(FORMATS[to])}. "
            f"Formats for {dataset.kind}: {', '.join(fits) or 'none'}"
        )
    exporter = FORMATS[to][dataset.kind]
    left_out = Counter[str]()
    check_empty(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".export-") as inside:
        part = Path(inside) / "part"
        part.mkdir()
        files = exporter.write(dataset, part, left_out)
        if not any(files.values()):
            reasons = "; ".join(f"{reason}: {n}" for reason, n in sorted(left_out.items()))
            in_brackets = f" ({reasons})" if reasons else ""
            raise UsageError(f"{source} has no row for {to}{in_brackets}")
        exported = ExportedDataset(
            format=to,
            kind=dataset.kind,
            source=str(source),
            folder=str(folder),
            files=dict(files),
            left_out={why: n for why, n in sorted(left_out.items()) if n},
        )
        (part / "README.md").write_text(card(dataset, exported, exporter, command), encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    return exported
