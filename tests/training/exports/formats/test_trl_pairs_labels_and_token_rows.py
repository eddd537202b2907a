"""Token rows for TRL, read as Parquet; what TRL makes of all its formats is tested beside, in its own environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sciagent.training.exports.exporting import export


def rows(folder: Path, name: str = "train.parquet") -> list[dict[str, Any]]:
    return pq.read_table(folder / name).to_pylist()


def test_a_sample_of_grpo_trains_one_turn(sets: Path, tmp_path: Path) -> None:
    export(sets / "rows", "trl-grpo", tmp_path / "out")
    samples, [row, *_] = rows(tmp_path / "out"), rows(sets / "rows")
    assert [(sample["episode"], sample["turn"]) for sample in samples] == [(1, 0), (1, 1), (2, 0), (3, 0), (4, 0)]
    first, second = samples[:2]
    assert second["input_ids"][: len(first["input_ids"])] == first["input_ids"], "what both share is computed once"
    for sample, turn in ((first, 0), (second, 1)):
        end = len(sample["input_ids"])
        trained = [place for place in range(end) if sample["completion_mask"][place]]
        assert sample["input_ids"] == row["ids"][:end] and trained[-1] == end - 1
        assert trained == [i for i, used in enumerate(row["gradient"]) if used and row["turns"][i] == turn]
        assert [sample["old_log_probs"][i] for i in trained] == [row["behaviour"][i] for i in trained]
        assert {row["advantages"][i] for i in trained} == {sample["advantage"]}
    assert {(sample["temperature"], sample["reward_version"]) for sample in samples} == {(1.0, 1)}


def test_what_a_grammar_forbade_is_no_sample_for_trl(sets: Path, tmp_path: Path) -> None:
    tables = tmp_path / "rows" / "tables"
    tables.mkdir(parents=True)
    for file in (sets / "rows").glob("*.*"):
        (tmp_path / "rows" / file.name).write_bytes(file.read_bytes())
    table = pq.read_table(sets / "rows" / "tables" / "gaps.trajectories.parquet")
    masked = table.to_pylist()
    masked[0]["sampling"] = json.dumps({"temperature": 1.0, "grammar": True})
    pq.write_table(type(table).from_pylist(masked, schema=table.schema), tables / "gaps.trajectories.parquet")
    answer = export(tmp_path / "rows", "trl-grpo", tmp_path / "out")
    assert answer.files["train.parquet"] == 4
    assert answer.left_out == {"turns: sampled under a grammar, which other trainers cannot make again": 1}
