"""Rows of a step as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from sciagent.agent.policies.schema_tokens import packed
from sciagent.training.learner.learner_rows_and_rendered_conversations import AnswerSpan, TrainingRow
from sciagent.training.learner.micro_batches_and_loss import divided, micro_batch


def row(n: int, **more: Any) -> TrainingRow:
    """n context tokens and n trained ones."""
    mask = (*[False] * n, *[True] * n)
    return TrainingRow(tuple(range(2 * n)), mask, tuple(0.5 * place for place in range(2 * n)), **more)


def test_micro_batches_hold_rows_of_similar_length_within_the_limit() -> None:
    rows = [row(n) for n in (9, 1, 2, 30, 2, 1)]
    parts = divided(rows, 20)
    assert [[len(each.ids) for each in part] for part in parts] == [[2, 2, 4, 4], [18], [60]]
    assert divided(rows[::-1], 20) == parts


def test_each_trained_token_is_predicted_by_the_place_before_it() -> None:
    batch = micro_batch([row(1), row(3, behaviour=(-0.5,) * 6, weight=2.0)], None, "cpu", pad=99)
    assert batch.own.ids.tolist() == [[0, 1, 99, 99, 99, 99], [0, 1, 2, 3, 4, 5]]
    assert (batch.own.row.tolist(), batch.own.place.tolist()) == ([0, 1, 1, 1], [0, 2, 3, 4])
    assert batch.target.tolist() == [1, 3, 4, 5] and batch.weight.tolist() == [1, 2, 2, 2]
    assert batch.imitated.tolist() == [True, False, False, False] and batch.behaviour.tolist()[1:] == [-0.5] * 3
    assert batch.advantage.tolist() == [0.5, 1.5, 2.0, 2.5]
    assert batch.teacher is batch.own and batch.allowed is None and set(batch.temperature.tolist()) == {1.0}


def test_a_teacher_sees_other_ids_before_the_same_tokens() -> None:
    batch = micro_batch([row(2), row(1, teacher_context=(7, 8, 9))], None, "cpu")
    assert batch.teacher.ids.tolist() == [[0, 1, 2, 3], [7, 8, 9, 1]]
    assert batch.teacher.place.tolist() == [1, 2, 2] and batch.own.place.tolist() == [1, 2, 0]


def test_schemas_and_temperatures_reach_the_tokens_of_their_answers() -> None:
    def allowed(span: AnswerSpan, ids: Sequence[int]) -> Any:
        assert (span.schema, list(ids)) == ("{}", [2, 3])
        return packed(np.eye(5, dtype=bool)[list(ids)])

    spans = (AnswerSpan(2, 4, 0.7, "{}"),)
    batch = micro_batch([row(1), row(2, spans=spans)], allowed, "cpu")
    assert batch.temperature.tolist() == pytest.approx([1.0, 0.7, 0.7])
    mask = batch.mask(5)
    assert mask is not None and mask.tolist() == [[True] * 5, *torch.eye(5, dtype=torch.bool)[2:4].tolist()]
    with pytest.raises(ValueError, match="no tokenizer can follow it"):
        micro_batch([row(2, spans=spans)], None, "cpu")


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        (((1, 2), (True, False), (0.0, 0.0)), "nothing predicts"),
        (((1, 2), (False, True), (0.0,)), "another length"),
        (((1, 2), (False, True), (0.0, float("nan"))), "no finite advantage"),
        (((1, 2), (False, True), (0.0, 1.0), (0.0, -float("inf"))), "of its behaviour"),
        (((1, 2), (False, True), (0.0, 1.0), None, (AnswerSpan(1, 3),)), "outside its row"),
    ],
)
def test_a_row_whose_parts_do_not_fit_is_refused(arrays: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TrainingRow(*arrays)
