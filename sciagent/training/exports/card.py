"""The card of an export: README.md, with the licence and the origin of the data set, and the data set's own card."""

from __future__ import annotations

from pathlib import PurePosixPath

from sciagent import __version__
from sciagent.domain.answers.datasets import ExportedDataset
from sciagent.training.card import table
from sciagent.training.exports.formats import Exporter
from sciagent.training.exports.source import UNKNOWN, DatasetFolder


def card(source: DatasetFolder, exported: ExportedDataset, exporter: Exporter, command: str) -> str:
    """Returns the card. Its first lines are YAML, by which `datasets.load_dataset` finds the files."""
    shown = {split: name for split, name in exporter.splits.items() if exported.files.get(name)}
    lines = [
        "---",
        *_licence(source.licence),
        "tags:",
        "- chemistry",
        "- sciagent",
        *_configurations(shown, exported),
        "---",
        f"# {source.kind} for {exported.format}",
        "",
        f"Exported by sciagent {__version__} from a data set of `{source.kind}`, whose card follows below.",
        "",
        *(["```sh", command, "```", ""] if command else []),
        *table(("file", "rows"), list(exported.files.items())),
        *table(("left out", "number"), list(exported.left_out.items())),
        "## How to read it",
        "",
        exporter.usage.replace("FOLDER", exported.folder).strip(),
        "",
        "## The data set",
        "",
        *_deeper(source.card),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _licence(licence: str) -> list[str]:
    """Returns the licence as Hugging Face names it: in small letters, or as another one with a link."""
    if licence == UNKNOWN:
        return [f"license: {UNKNOWN}"]
    if "://" in licence:
        return ["license: other", f"license_link: {licence}"]
    return [f"license: {licence.lower()}"]


def _configurations(splits: dict[str, str], exported: ExportedDataset) -> list[str]:
    """Returns the configurations: the rows by default, and one for the tables of each kind."""
    lines = ["configs:"]
    lines += ["- config_name: default", "  data_files:"] if splits else []
    lines += [f"  - split: {split}\n    path: {name}" for split, name in splits.items()]
    tables: dict[str, list[str]] = {}
    for name in exported.files:
        if name.startswith("tables/"):
            tables.setdefault(PurePosixPath(name).stem.rpartition(".")[2], []).append(f"    - {name}")
    for what, names in tables.items():
        lines += [f"- config_name: {what}", "  data_files:", "  - split: train", "    path:", *names]
    return lines


def _deeper(text: str) -> list[str]:
    """Returns the lines of a card with its headings two levels deeper."""
    fenced = False
    lines = []
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        lines.append(f"##{line}" if line.startswith("#") and not fenced else line)
    return lines
