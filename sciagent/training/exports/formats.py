"""The formats to which data sets can be exported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from sciagent.training.datasets import KINDS, Kind
from sciagent.training.exports.formats import (
    huggingface,
    skyrl_conversations,
    trl_grpo,
    trl_preferences,
    trl_sft,
    verl_conversations,
)
from sciagent.training.exports.formats import skyrl_tokens as skyrl_token_rows
from sciagent.training.exports.formats import verl_tokens as verl_token_rows
from sciagent.training.exports.source import DatasetFolder

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


SFT = Exporter(trl_sft.write, trl_sft.USAGE)
VERL_SFT = Exporter(verl_conversations.write, verl_conversations.USAGE)
SKYRL_SFT = Exporter(skyrl_conversations.write, skyrl_conversations.USAGE)

FORMATS: Mapping[str, Mapping[Kind, Exporter]] = {
    "trl-sft": {"sft": SFT, "hindsight": SFT},
    "trl-dpo": {"preference": Exporter(trl_preferences.write, trl_preferences.DPO_USAGE)},
    "trl-kto": {"unpaired": Exporter(trl_preferences.write, trl_preferences.KTO_USAGE)},
    "trl-grpo": {"rows": Exporter(trl_grpo.write, trl_grpo.USAGE)},
    "verl": {"rows": Exporter(verl_token_rows.write, verl_token_rows.USAGE), "sft": VERL_SFT, "hindsight": VERL_SFT},
    "skyrl": {
        "rows": Exporter(skyrl_token_rows.write, skyrl_token_rows.USAGE),
        "sft": SKYRL_SFT,
        "hindsight": SKYRL_SFT,
    },
    "huggingface": {kind: Exporter(huggingface.write, huggingface.USAGE) for kind in KINDS},
}
"""Exporters by format and kind of data set."""
