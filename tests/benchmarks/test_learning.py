"""The learning benchmark: its tasks, its model and its charts. The experiment itself takes hours."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.learning import curves, newborn, tasks
from sciagent.campaign.file.campaign_spec import load_spec


def test_nothing_of_a_held_out_task_is_in_a_training_task() -> None:
    every = tasks.tasks()
    held, trained = [each for each in every if each.board], [each for each in every if not each.board]
    assert (len(trained), len(held)) == (16, 8) and all(len(each.board) == tasks.BOARD for each in held)
    assert not {text for each in held for text in each.board} & set(tasks.pool())
    assert not {(each.centre, each.limit) for each in held} & {(each.centre, each.limit) for each in trained}
    assert not {each.centre for each in held} & {each.centre for each in trained}


def test_the_files_of_the_tasks_are_campaigns(tmp_path: Path) -> None:
    tasks.write(tmp_path, "learner")
    for task in tasks.tasks():
        spec = load_spec(tmp_path / f"{task.name}.yaml")
        wanted = {objective.property: objective for objective in spec.objectives}
        assert set(wanted) == ({"homo_lumo_gap"} if task.limit is None else {"homo_lumo_gap", "dipole"})
        assert spec.ladder[-1].inline and spec.ladder[-1].verifier == "xtb.singlepoint"


CALL = '{{"name": "modify", "arguments": {{"parent": "#{}", "edit": "{}", "what": {}, "where": null}}}}'


def test_a_call_of_the_model_has_seven_tokens_with_its_end(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    edits = [("add substituent", '"fluoro"'), ("swap ring", '"pyridine"'), ("swap CH for N", "null")]
    calls = [CALL.format(rank, *edit) for rank in range(1, 9) for edit in edits]
    rows = [
        {"prompt": [{"content": f"Wanted: 1.{rank}\n#1 c1ccccc1"}], "completion": [{"content": call}], "turn": 3}
        for rank in range(10)
        for call in calls
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    tokenizer = newborn.tokenizer_of(tmp_path, 1000)
    lengths = [len(tokenizer(call)["input_ids"]) for call in calls]
    assert lengths == [6, 6, 5] * 8  # without the end token
    assert all(tokenizer.decode(tokenizer(call)["input_ids"]) == call for call in calls)
    assert newborn.make(tmp_path / "model", tokenizer, 32, 1, 0) > len(tokenizer) * 32


def test_curves_are_drawn_of_what_a_run_prints(tmp_path: Path) -> None:
    lines = [json.dumps({"step": n, "reward": n / 10, "entropy": 2.0}) for n in range(1, 4)]
    run = tmp_path / "run.jsonl"
    run.write_text("\n".join(["not a step", *lines, json.dumps({"policy": "x", "steps": 3})]), encoding="utf-8")
    assert curves.steps_of(run) == [(1, 0.1, 2.0), (2, 0.2, 2.0), (3, 0.3, 2.0)]
    assert curves.running_means([1.0, 3.0, 5.0], 2) == [1.0, 2.0, 4.0]
    curves.draw([run], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
