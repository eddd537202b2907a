"""Tokens as they were sampled, at which teachers say what they would have done: distillation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from sciagent.training.learner.conversations import Conversations
from sciagent.training.learner.kinds import Cells, RowKind, RowSelection, Unit, spans_of
from sciagent.training.learner.rows import AnswerSpan, TrainingRow


def distilled_row(cells: Cells) -> TrainingRow:
    """Returns a row of `dataset build rows`, of which teachers see the same as the model."""
    n = len(cells["ids"])
    spans = spans_of(cells["spans"])
    return TrainingRow(tuple(cells["ids"]), tuple(cells["trainable"]), (0.0,) * n, spans=spans, reward=cells["outcome"])


def hinted_row(cells: Cells, conversations: Conversations) -> TrainingRow:
    """Returns a row of a turn that failed: the tokens as they were sampled. The teacher sees the hint before them."""
    prompt, answer, used = cells["prompt_ids"], cells["answer_ids"], cells["answer_mask"]
    drawn = json.loads(cells["answer_drawn"])
    schema = None if drawn["schema"] is None else json.dumps(drawn["schema"], ensure_ascii=False)
    n = len(prompt) + len(answer)
    return TrainingRow(
        (*prompt, *answer),
        (*[False] * len(prompt), *used),
        (0.0,) * n,
        spans=(AnswerSpan(len(prompt), n, drawn["temperature"], schema),),
        teacher_context=(*conversations.hinted_ids(cells), *answer[: used.index(True)]),
    )


def _distilled(rows: Iterable[tuple[int, Cells]], selection: RowSelection) -> Iterator[Unit]:
    for number, cells in rows:
        if not any(cells["trainable"]):
            selection.drop("have no token that may be trained")
        elif selection.takes(len(cells["ids"])):
            yield Unit((number,))


def _hinted(rows: Iterable[tuple[int, Cells]], selection: RowSelection) -> Iterator[Unit]:
    for number, cells in rows:
        used: Sequence[bool] | None = cells["answer_mask"]
        if cells["how"] != "hinted":
            selection.drop("goals that were achieved, for `train sft`")
        elif used is None or cells["prompt_ids"] is None:
            selection.drop("the server returned no tokens")
        elif not any(used):
            selection.drop("have no token that may be trained")
        else:
            row = hinted_row(cells, selection.conversations)
            answer = len(row.ids) - row.mask.index(True)
            if selection.takes(max(len(row.ids), len(row.teacher_context or ()) + answer)):
                yield Unit((number,))


def _taught_row(cells: Cells, _: Conversations) -> TrainingRow:
    return distilled_row(cells)


DISTILL = RowKind(("rows",), ("ids", "trainable"), _distilled, _taught_row, ("trainable",))
HINDSIGHT = RowKind(
    ("hindsight", "skill"), None, _hinted, hinted_row, ("prompt_ids", "answer_ids", "answer_mask", "answer_drawn")
)
