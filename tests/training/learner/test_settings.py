"""The task of a run has what options or a stage state under the same names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from sciagent.training.learner.settings import TrainingWish, filled


class Stage(BaseModel):
    epochs: int = 3
    seed: int = 1
    lora: int = 4


@dataclass
class Options:
    seed: int = 2
    threads: int | None = 1


def test_a_task_takes_what_has_the_same_name_and_what_is_given_counts_more() -> None:
    places = {"rows": Path("rows"), "out": Path("out"), "model": "tiny", "name": "new"}
    wish = filled(TrainingWish, Stage(), Options(), training="sft", rank=8, **places)
    assert (wish.epochs, wish.seed, wish.threads, wish.rank) == (3, 2, 1, 8)
    assert wish.rows == Path("rows") and wish.rows_per_step == 32, "what nobody states has the usual value"
