"""The value head at work: values of turns at the start of a step, and the loss by which it learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from accelerate.utils import gather_object

from sciagent.training.learner.rows import TrainingRow
from sciagent.training.learner.values.advantages import Turn, Values
from sciagent.training.learner.values.head import ValuedOutput


class ValueBatch(NamedTuple):
    """The m states of some rows whose values are learnt."""

    row: Any
    """(m,) number of the sequence."""
    place: Any
    """(m,) place of the last token of the state."""
    before: Any
    """(m,) values at the start of the step."""
    target: Any
    """(m,)"""


def value_batch(rows: Sequence[TrainingRow], device: Any) -> ValueBatch:
    """Returns the tensors of what the rows teach the value head."""
    found = [(number, value) for number, row in enumerate(rows) for value in row.values]

    def whole(numbers: list[int]) -> Any:
        return torch.tensor(numbers, dtype=torch.long, device=device)

    def real(numbers: list[float]) -> Any:
        return torch.tensor(numbers, dtype=torch.float32, device=device)

    return ValueBatch(
        row=whole([number for number, _ in found]),
        place=whole([value.begin - 1 for _, value in found]),
        before=real([value.before for _, value in found]),
        target=real([value.target for _, value in found]),
    )


def values_of(model: Any, parts: Sequence[Sequence[TrainingRow]], device: Any) -> Values:
    """Returns the values before each turn of the rows, by the model as it is now. Every process has to call it.

    model: a `PolicyWithValues`, or its wrapping. parts: the rows of this process, those of a batch together.
    """
    return _by_turn(model, parts, device, lambda found: found.values.tolist())


def states_of(model: Any, parts: Sequence[Sequence[TrainingRow]], device: Any) -> Mapping[Turn, Any]:
    """Returns the (h,) states before each turn of the rows, as `values_of` returns their values."""
    return _by_turn(model, parts, device, lambda found: list(found.states.cpu()))


def _by_turn(
    model: Any, parts: Sequence[Sequence[TrainingRow]], device: Any, read: Callable[[ValuedOutput], Sequence[Any]]
) -> dict[Turn, Any]:
    """Returns what `read` finds in the model's output for each turn of the rows of all processes."""
    mine: dict[Turn, Any] = {}
    for part in parts:
        turns = [
            (number, row.episode.episode, turn)
            for number, row in enumerate(part)
            if row.episode is not None
            for turn in row.episode.turns
        ]
        longest = max(len(row.ids) for row in part)
        ids = torch.tensor([[*row.ids, *[0] * (longest - len(row.ids))] for row in part], device=device)
        where = {
            "value_row": torch.tensor([number for number, _, _ in turns], dtype=torch.long, device=device),
            "value_place": torch.tensor([turn.begin - 1 for *_, turn in turns], dtype=torch.long, device=device),
            "logits_to_keep": torch.zeros(1, dtype=torch.long, device=device),  # logits are not needed
        }
        with torch.no_grad():
            found = model(input_ids=ids, use_cache=False, **where)
        for (_, episode, turn), value in zip(turns, read(found), strict=True):
            mine.setdefault((episode, turn.number), value)
    merged: dict[Turn, Any] = {}
    for each in gather_object([mine]):
        merged = each | merged
    return merged


def value_loss(values: Any, batch: ValueBatch, clip: float | None) -> Any:
    """Returns (m,) losses: half the square of the error. With a clip they are those of PPO2: half the larger square of
    the error with and without clipping the change.

    values: (m,) by the model as it is now. clip: largest change of a value within a step that still lowers the loss, in
    the unit of the values; None: no limit.
    Source: Schulman et al. (2017), arXiv:1707.06347, as implemented in OpenAI's baselines.
    """
    if clip is None:
        return 0.5 * (values - batch.target) ** 2
    near = batch.before + (values - batch.before).clamp(-clip, clip)
    return 0.5 * torch.maximum((values - batch.target) ** 2, (near - batch.target) ** 2)
