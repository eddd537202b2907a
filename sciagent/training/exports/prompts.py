"""Yields the openings of episodes: prompts for trainers that sample themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from sciagent.training.exports.source import DatasetFolder
from sciagent.training.reading import EVALUATION
from sciagent.training.splits import SPLITS, Split

OPENINGS = ("episode", "group", "task", "purpose", "opening")


class OpeningPrompt(NamedTuple):
    """The first messages of episodes."""

    campaign: str
    task: str
    group: int | None
    """Id of the first group that began with them; None for episodes without siblings."""
    messages: list[dict[str, Any]]
    """(m,) with `role` and `content`."""


def prompt_type() -> Any:
    """Returns the type of a column of prompts. Templates would take an empty key of a message for a value."""
    import pyarrow as pa

    return pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


def prompts(source: DatasetFolder, split: Split) -> Iterator[OpeningPrompt]:
    """Yields the openings of a split of `rows`, each once, in the order of the campaigns and episodes."""
    tested = {row["task"] for row in source.rows("test", ["task"])}
    campaigns = dict.fromkeys(row["campaign"] for each in SPLITS for row in source.rows(each, ["campaign"]))
    seen = set()
    for campaign in campaigns:
        for row in source.table(campaign, "trajectories", OPENINGS):
            if row["opening"] is None or row["purpose"] == EVALUATION or (row["task"] in tested) != (split == "test"):
                continue
            if (key := (row["task"], row["opening"])) not in seen:
                seen.add(key)
                yield OpeningPrompt(campaign, row["task"], row["group"], json.loads(row["opening"]))
