"""Builds a data set in a folder: a Parquet file for each split, tables, and a card."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.domain.answers.datasets import BuiltDataset
from sciagent.errors import UsageError
from sciagent.report.export.parquet import ArrowRows, evidence_rows
from sciagent.store.campaign_state import campaigns as campaign_rows
from sciagent.store.campaign_state import watermarks
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import rewards
from sciagent.store.results.evidence import read_watermark
from sciagent.training import answers, card, token_rows
from sciagent.training.columns import TableColumn, schema
from sciagent.training.datasets import DatasetWish, Kind, check
from sciagent.training.reading import EVALUATION, RecordedEpisode, TrainingCampaign
from sciagent.training.splits import SPLITS, ScaffoldLimit, Split, held_out_tasks
from sciagent.training.tables import reward_rows, trajectory_rows

COLUMNS: Mapping[Kind, Sequence[TableColumn]] = {
    "rows": token_rows.COLUMNS,
    "sft": answers.SFT,
    "hindsight": answers.HINDSIGHT,
    "preference": answers.PREFERENCE,
    "unpaired": answers.UNPAIRED,
    "skill": answers.HINDSIGHT,
}
GROUPS = {"rows": token_rows.GROUP}
OTHERS = 200  # answers: rows of a row group, which are in memory together

Progress = Callable[[str, int, int], None]
"""Is told the campaign, the number of episodes that were read, and of how many."""


def build(ledger: Ledger, wish: DatasetWish, folder: Path, progress: Progress | None = None) -> BuiltDataset:
    """Builds a data set in a new or empty folder. An error leaves nothing behind.

    Raises UsageError for a folder with files or a watermark in the future, UnknownNameError for an unknown campaign or
    version of rewards.
    """
    check(wish, folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    as_of = _watermark(ledger, wish)
    campaigns = [TrainingCampaign(ledger, name, as_of) for name in dict.fromkeys(wish.campaigns)]
    held = [TrainingCampaign(ledger, name, as_of) for name in wish.test_campaigns]
    with ledger.read() as connection, tempfile.TemporaryDirectory(dir=folder.parent, prefix=".dataset-") as inside:
        part = Path(inside) / "part"
        part.mkdir()
        builder = _Builder(connection, wish, as_of, campaigns, held, progress)
        built = builder.write(part, str(folder))
        (part / "README.md").write_text(card.text(connection, built, wish, campaigns, COLUMNS[wish.kind]))
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    return built


def _watermark(ledger: Ledger, wish: DatasetWish) -> int:
    """Returns the stated watermark, or a new one, so that all turns so far lie before it. Turns before it are a fixed
    set from then on. Raises UsageError."""
    with ledger.begin() as connection:
        ids = [campaign_rows.get(connection, name).id for name in wish.campaigns]
        if wish.as_of is None:
            return watermarks.take(connection, ids)
        watermarks.settle(connection, ids)
        now = read_watermark(connection)
    if wish.as_of > now:
        raise UsageError(f"watermark {wish.as_of} lies in the future; the ledger is at {now}")
    return wish.as_of


class _Builder:
    """Writes the files of one data set."""

    def __init__(
        self,
        connection: Connection,
        wish: DatasetWish,
        as_of: int,
        campaigns: Sequence[TrainingCampaign],
        held: Sequence[TrainingCampaign],
        progress: Progress | None,
    ) -> None:
        self._connection, self._wish, self._as_of, self._campaigns = connection, wish, as_of, campaigns
        self._progress = progress or (lambda name, n, of: None)
        self._tasks = {each.task for each in campaigns}
        named = {each.task for each in held}
        self._held = held_out_tasks(self._tasks, wish.test_share, named)
        self._versions = _versions(connection, wish, campaigns, as_of) if wish.kind == "rows" else {}
        self._episodes = 0
        self._left_out: Counter[str] = wish.selection.left_out

    def write(self, folder: Path, shown: str) -> BuiltDataset:
        """Writes all files but the card. shown: the folder as it is named to the reader."""
        columns = COLUMNS[self._wish.kind]
        metadata = {"sciagent": __version__, "dataset": self._wish.kind, "watermark": str(self._as_of)}
        rows: dict[str, int] = {
            split: ArrowRows(
                schema(columns, metadata | {"split": split}), self._rows(split), GROUPS.get(self._wish.kind, OTHERS)
            ).write(folder / f"{split}.parquet")
            for split in SPLITS
        }
        tables = self._tables(folder) if self._wish.kind == "rows" else {}
        return BuiltDataset(
            kind=self._wish.kind,
            folder=shown,
            campaigns=tuple(each.name for each in self._campaigns),
            watermark=self._as_of,
            episodes=self._episodes,
            rows=rows,
            tasks={"train": len(self._tasks - self._held), "test": len(self._tasks & self._held)},
            tables=tables,
            rewards=self._versions,
            left_out={why: n for why, n in sorted(self._left_out.items()) if n},
        )

    def _tables(self, folder: Path) -> dict[str, int]:
        """Writes the tables of the campaigns; returns the number of rows by file."""
        (folder / "tables").mkdir()
        tables = {}
        for each in self._campaigns:
            found = {
                "trajectories": trajectory_rows(self._connection, each),
                "evidence": evidence_rows(self._connection, each.built.row, self._as_of),
            }
            if (version := self._versions[each.name]) is not None:
                found["rewards"] = reward_rows(self._connection, each, version)
            for what, rows in found.items():
                name = f"tables/{each.name}.{what}.parquet"
                tables[name] = rows.write(folder / name)
        return tables

    def _rows(self, split: Split) -> Iterator[Mapping[str, Any]]:
        limit = ScaffoldLimit(self._wish.selection.per_scaffold, repeats=self._wish.kind == "preference")
        for campaign in self._campaigns:
            for episodes in self._siblings(campaign, split):
                yield from self._of(campaign, episodes, limit)

    def _siblings(self, campaign: TrainingCampaign, split: Split) -> Iterator[list[RecordedEpisode]]:
        """Yields the episodes of a split, those of a group together."""
        chosen = self._wish.groups
        rows = [row for row in campaign.rows(self._connection) if chosen is None or row.group_id in chosen]
        done = 0
        for _, members in groupby(rows, key=lambda row: (row.group_id, row.id if row.group_id is None else None)):
            episodes = [campaign.episode(self._connection, row) for row in members]
            done += len(episodes)
            self._progress(campaign.name, done, len(rows))
            mine = [each for each in episodes if (each.task in self._held) == (split == "test")]
            wanted = [each for each in mine if each.purpose != EVALUATION]
            self._left_out["episodes: made to evaluate a model"] += len(mine) - len(wanted)
            self._episodes += len(wanted)
            if wanted:
                yield wanted

    def _of(
        self, campaign: TrainingCampaign, episodes: Sequence[RecordedEpisode], limit: ScaffoldLimit
    ) -> Iterator[Mapping[str, Any]]:
        connection, selection = self._connection, self._wish.selection
        if self._wish.kind == "rows":
            for episode in episodes:
                turns, version = campaign.raw_turns(connection, episode), self._versions[campaign.name]
                yield from token_rows.rows_of(connection, episode, turns, version, self._left_out)
            return
        turns = [turn for episode in episodes for turn in answers.judged(connection, campaign, episode)]
        match self._wish.kind:
            case "sft":
                yield from answers.verified(turns, selection, limit)
            case "hindsight":
                yield from answers.hindsight(campaign, turns, selection, limit)
            case "preference":
                yield from answers.pairs(campaign, turns, selection, limit)
            case "skill":
                yield from answers.taught(campaign, turns, selection)
            case "unpaired":
                yield from answers.labelled(turns, selection, limit)


def _versions(
    connection: Connection, wish: DatasetWish, campaigns: Sequence[TrainingCampaign], as_of: int
) -> dict[str, int | None]:
    """Returns the version of the rewards of each campaign: the stated one, else the last one; None without one."""
    ids = {each.built.row.id: each.name for each in campaigns}
    stated: dict[str, int | None] = {}
    for version in wish.rewards:
        row = rewards.get(connection, version)
        if row.campaign_id not in ids:
            raise UsageError(f"version {version} of rewards is of another campaign than {', '.join(ids.values())}")
        stated[ids[row.campaign_id]] = version
    return {
        name: stated[name] if name in stated else rewards.last_of_campaign(connection, id_, as_of)
        for id_, name in ids.items()
    }
