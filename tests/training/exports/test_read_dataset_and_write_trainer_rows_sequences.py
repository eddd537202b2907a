"""Token rows as prompts and responses, for trainers that compute probabilities among all tokens."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sciagent.agent.turns_to_token_rows import CONTEXT
from sciagent.training.exports.read_dataset_and_write_trainer_rows import (
    GRAMMAR,
    MIXED,
    NO_GRADIENT,
    DatasetFolder,
    TokenSequence,
    prompts,
    sequences,
)
from tests.support.exported import four_siblings, write_datasets


@pytest.fixture(scope="module")
def built(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sequences")
    return write_datasets(four_siblings(migrated_sqlite, folder), folder) / "rows"


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A data set of `rows` that a test may change."""
    return Path(shutil.copytree(built, tmp_path / "rows"))


def read(folder: Path) -> tuple[list[TokenSequence], Counter[str]]:
    left_out: Counter[str] = Counter()
    return list(sequences(DatasetFolder(folder), "train", left_out)), left_out


def rewrite(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    schema = pq.read_schema(path)
    pq.write_table(type(pq.read_table(path)).from_pylist(list(rows), schema=schema), path)


def sample(folder: Path, *settings: dict[str, Any]) -> None:
    """States how the first turns were sampled."""
    path = folder / "tables" / "gaps.trajectories.parquet"
    rows = pq.read_table(path).to_pylist()
    for row, stated in zip(rows, settings, strict=False):
        row["sampling"] = json.dumps(stated)
    rewrite(path, rows)


def trained(each: TokenSequence) -> Iterator[tuple[int, float, float]]:
    """Yields id, behaviour and advantage of the trained tokens."""
    for i, used in enumerate(each.mask):
        if used:
            yield each.response_ids[i], each.behaviour[i], each.advantages[i]


def test_a_response_begins_with_the_first_sampled_token_and_keeps_what_tools_said(folder: Path) -> None:
    found, left_out = read(folder)
    rows = pq.read_table(folder / "train.parquet").to_pylist()
    assert +left_out == {} and len(found) == len(rows) == 4
    for each, row in zip(found, rows, strict=True):
        assert each.prompt_ids + each.response_ids == row["ids"]
        assert len(each.prompt_ids) == next(i for i, turn in enumerate(row["turns"]) if turn != CONTEXT)
        assert {len(cells) for cells in (each.mask, each.behaviour, each.advantages)} == {len(each.response_ids)}
        wanted = [i for i, used in enumerate(row["gradient"]) if used]
        assert list(trained(each)) == [(row["ids"][i], row["behaviour"][i], row["advantages"][i]) for i in wanted]
        assert each.temperature == 1.0 and each.last and each.group == "gaps/group 1"
        assert each.rewards is not None and each.rewards[-1] == row["outcome"] and not any(each.rewards[:-1])


def test_what_was_sampled_under_a_grammar_is_not_trained(folder: Path) -> None:
    held, free = {"temperature": 1.0, "grammar": True}, {"temperature": 1.0, "grammar": False}
    sample(folder, held, free, held)
    found, left_out = read(folder)
    assert +left_out == {GRAMMAR: 2, NO_GRADIENT: 1}
    assert [each.row["episode"] for each in found] == [1, 3, 4]
    assert {id_ for id_, *_ in trained(found[0])} == {11}, "the second turn of the first episode stays"


def test_a_row_has_one_temperature(folder: Path) -> None:
    sample(folder, {"temperature": 0.5, "grammar": False}, {"temperature": 0.7, "grammar": False})
    found, left_out = read(folder)
    assert +left_out == {MIXED: 1}
    assert found[0].temperature == 0.5 and {id_ for id_, *_ in trained(found[0])} == {10}


def test_only_the_last_row_of_an_episode_has_its_reward(folder: Path) -> None:
    path = folder / "train.parquet"
    first, *others = pq.read_table(path).to_pylist()
    rewrite(path, [first, first | {"row": 1}, *(row | {"outcome": None} for row in others)])
    found, _ = read(folder)
    assert [each.last for each in found] == [False, True, True, True, True]
    assert [None if each.rewards is None else sum(each.rewards) for each in found] == [
        0.0,
        first["outcome"],
        None,
        None,
        None,
    ]


def test_openings_come_once_and_without_those_of_evaluations(folder: Path) -> None:
    [prompt] = prompts(DatasetFolder(folder), "train")
    assert (prompt.campaign, prompt.group) == ("gaps", 1) and prompt.messages[0]["role"] == "system"
    assert list(prompts(DatasetFolder(folder), "test")) == []
    path = folder / "tables" / "gaps.trajectories.parquet"
    rewrite(path, [row | {"purpose": "evaluation"} for row in pq.read_table(path).to_pylist()])
    assert list(prompts(DatasetFolder(folder), "train")) == []
