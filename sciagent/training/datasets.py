"""The wishes of a person for a data set: its kind, campaigns, rewards and splits.

The answers of `sciagent dataset build` and `sciagent dataset export`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from sciagent.domain.answers.values import AnswerModel
from sciagent.errors import UsageError
from sciagent.training.answers import Selection

Kind = Literal["rows", "sft", "hindsight", "preference", "unpaired", "skill"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class DatasetWish:
    """The wishes of a person for a data set: its kind, campaigns, rewards and splits."""

    kind: Kind
    campaigns: Sequence[str]
    selection: Selection = field(default_factory=Selection)
    as_of: int | None = None
    """Watermark; None: now."""
    test_share: float = 0.1
    """Share of the goals that are for testing."""
    test_campaigns: Sequence[str] = ()
    """Campaigns whose goals are for testing."""
    rewards: Sequence[int] = ()
    """Versions of rewards, at most one for each campaign; else the last one of each."""
    groups: Sequence[int] | None = None
    """Ids of groups of rollouts: only their episodes; None: all."""
    licence: str | None = None
    """SPDX identifier or URL."""
    command: str = ""
    """The command line, for the card."""


def check(wish: DatasetWish, folder: Path) -> None:
    """Raises UsageError for a wish that contradicts itself, or for a folder with files."""
    if not wish.campaigns:
        raise UsageError("name the campaigns: --campaign NAME, once for each")
    check_empty(folder)
    if outside := [name for name in wish.test_campaigns if name not in wish.campaigns]:
        raise UsageError(f'--test-campaign "{outside[0]}" is not among the campaigns: {", ".join(wish.campaigns)}')


def check_empty(folder: Path) -> None:
    """Raises UsageError for a folder with files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not empty; name another folder with --out")


class BuiltDataset(AnswerModel):
    """A data set for training."""

    kind: str
    """`rows`, `sft`, `hindsight`, `preference` or `unpaired`."""
    folder: str
    campaigns: tuple[str, ...]
    watermark: int
    """Evidence up to this watermark is in it, and the turns before it."""
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
