"""The answers of `sciagent dataset build` and `sciagent dataset export`, and the check of their output folder.

A watermark numbers the evidence of a ledger in the order in which it was committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sciagent.domain.answers.candidate_and_value_answers import AnswerModel
from sciagent.errors import UsageError


def check_empty(folder: Path) -> None:
    """Raises UsageError unless the folder is missing or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not empty; name another folder with --out")


class BuiltDataset(AnswerModel):
    """A data set for training."""

    kind: str
    """`rows`, `sft`, `hindsight`, `preference` or `unpaired`."""
    folder: str
    campaigns: tuple[str, ...]
    watermark: int
    """The data set has the evidence up to this watermark, and the turns before it."""
    episodes: int
    """Episodes that were read."""
    rows: Mapping[str, int]
    """Number of rows, by split."""
    tasks: Mapping[str, int]
    """Number of goals, by split."""
    tables: Mapping[str, int]
    """Number of rows of the tables of campaigns, by file; empty for other kinds than `rows`."""
    rewards: Mapping[str, int | None]
    """Version of the rewards, by campaign; None without one. Empty for other kinds than `rows`."""
    left_out: Mapping[str, int]
    """Numbers of turns or pairs that were left out, by reason."""


class ExportedDataset(AnswerModel):
    """A data set in the form of another package."""

    format: str
    """Such as `trl-sft`."""
    kind: str
    """`rows`, `sft`, `hindsight`, `preference` or `unpaired`."""
    source: str
    """The folder of the data set."""
    folder: str
    files: Mapping[str, int]
    """Number of rows, by file."""
    left_out: Mapping[str, int]
    """Numbers of rows or turns that the format cannot express, by reason."""
