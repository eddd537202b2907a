"""The value head of a policy: a linear layer on the last hidden states, its loss, and the advantages that follow from
it.

The layer predicts in units of its targets: a value is `centre + scale * layer(state)`, where centre and scale are the
running mean and standard deviation of the targets. Its learning rate then fits rewards of any size. When both change,
the layer is changed so that the values stay as they are.

Checkpoints hold the value head with its centre and scale, published policies do not.

Source: van Hasselt, Guez, Hessel, Mnih and Silver (2016), "Learning values across many orders of magnitude",
arXiv:1602.07714.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from accelerate.utils import gather_object
from torch.distributed.tensor import DTensor, distribute_tensor

from sciagent.rewards.credit import gae
from sciagent.rewards.credit.returns import Numbers, mean_of, outcome_of
from sciagent.training.learner.rows import TrainingRow, TurnValue
from sciagent.training.settings import CriticSettings

Turn = tuple[str, int]
"""A turn: its episode, and its number there."""
Values = Mapping[Turn, float]
"""Values by turn, before it is answered."""
Decided = Mapping[Turn, float | None]
"""Numbers by turn; None where a reward is undecided."""


def of_turns(rewards: Numbers, values: Mapping[int, float], settings: CriticSettings) -> dict[int, float | None]:
    """Returns the advantages of the turns that have values, by number; None where a reward is undecided.

    rewards: (turns,) of the episode. Turns without tokens have no value. Their rewards count for the last turn before
    them that has one.
    """
    begins = sorted(number for number in values if number < len(rewards))
    ends = [*begins[1:], len(rewards)]
    earned = [outcome_of(rewards[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    expected = [values[number] for number in begins]
    found = gae.advantages(earned, expected, discount=settings.discount, decay=settings.decay)
    return dict(zip(begins, found, strict=True))


def returns_to_go(rows: Sequence[TrainingRow], settings: CriticSettings) -> Decided:
    """Returns what the episodes earned from each of their turns on, with the discount of the settings.

    Raises ValueError for a row without the rewards of its episode.
    """
    nothing = {(row.episode.episode, turn.number): 0.0 for row in rows if row.episode for turn in row.episode.turns}
    return _advantages(rows, nothing, settings.model_copy(update={"decay": 1.0}))


def sibling_means(rows: Sequence[TrainingRow], to_go: Decided, otherwise: Values) -> Values:
    """Returns for each turn the mean of what the other episodes of its group earned from the same turn on.

    A turn's own reward is not in its mean, which therefore is a baseline without bias. Where no other sibling has a
    decided return from that turn on, the value is that in `otherwise`.
    """
    groups = {row.episode.episode: row.episode.group for row in rows if row.episode and row.episode.group is not None}
    earned: dict[tuple[str, int], list[float]] = {}
    for (episode, number), value in to_go.items():
        if episode in groups and value is not None:
            earned.setdefault((groups[episode], number), []).append(value)
    means = dict(otherwise)
    for (episode, number), value in to_go.items():
        of_group = earned.get((groups.get(episode, ""), number), [])
        others = len(of_group) - 1
        if value is not None and others > 0:
            means[episode, number] = (sum(of_group) - value) / others
    return means


def valued_rows(
    rows: Sequence[TrainingRow], values: Values, settings: CriticSettings, baseline: Values | None = None
) -> list[TrainingRow]:
    """Returns the rows with advantages, and with what the value head has to learn.

    values: by the value head as it is. baseline: the values from which advantages and targets follow; None: the same.
    The mean advantage of all turns is subtracted from each. Tokens of turns without an advantage are not trained, and
    neither are their values. Raises ValueError for a row without the rewards of its episode.
    """
    expected = values if baseline is None else baseline
    advantages = _advantages(rows, expected, settings)
    centre = mean_of(advantages.values()) or 0.0
    learnt = {
        at: _Learnt(advantage - centre, TurnValue(0, values[at], expected[at] + advantage))
        for at, advantage in advantages.items()
        if advantage is not None
    }
    return [_valued(row, learnt) for row in rows]


class _Learnt(NamedTuple):
    """What is learnt from a turn."""

    advantage: float
    value: TurnValue
    """Without its place in a row."""


def _advantages(rows: Sequence[TrainingRow], values: Values, settings: CriticSettings) -> Decided:
    """Returns the advantages of the turns that have values."""
    if any(row.episode is None for row in rows):
        raise ValueError("a value head needs rows with the rewards of their episodes")
    by_episode: dict[str, dict[int, float]] = {}
    for (episode, number), value in values.items():
        by_episode.setdefault(episode, {})[number] = value
    advantages: dict[Turn, float | None] = {}
    for episode, rewards in {row.episode.episode: row.episode.rewards for row in rows if row.episode}.items():
        of_episode = of_turns(rewards, by_episode.get(episode, {}), settings)
        advantages |= {(episode, number): advantage for number, advantage in of_episode.items()}
    return advantages


def _valued(row: TrainingRow, learnt: Mapping[Turn, _Learnt]) -> TrainingRow:
    if row.episode is None:
        return row
    by_token = [0.0] * len(row.ids)
    mask = [False] * len(row.ids)
    values = list[TurnValue]()
    for turn in row.episode.turns:
        of_turn = learnt.get((row.episode.episode, turn.number))
        if of_turn is None:
            continue
        values.append(of_turn.value._replace(begin=turn.begin))
        for place in range(turn.begin, turn.end):
            mask[place] = row.mask[place]
            by_token[place] = of_turn.advantage if row.mask[place] else 0.0
    return replace(row, mask=tuple(mask), advantages=tuple(by_token), values=tuple(values))


def targets(rows: Iterable[TrainingRow]) -> Iterator[TurnValue]:
    """Yields what the value head has to learn from the rows."""
    return (value for row in rows for value in row.values)


def explained_variance(rows: Iterable[TrainingRow]) -> float | None:
    """Returns the share of the targets' variance that the values before the step explain; None if all are equal.

    1 is perfect, 0 as good as their mean, and less is worse than it.
    """
    pairs = [(value.target, value.target - value.before) for value in targets(rows)]
    if not pairs:
        return None
    whole, rest = (_variance(numbers) for numbers in zip(*pairs, strict=True))
    return None if whole == 0 else 1 - rest / whole


def _variance(numbers: Sequence[float]) -> float:
    mean = sum(numbers) / len(numbers)
    return sum((number - mean) ** 2 for number in numbers) / len(numbers)


RATE = 0.1
"""Share of the targets of one step in the running mean and variance."""
SMALLEST = 1e-6
"""Targets with a smaller standard deviation are all equal."""


class ValuedOutput(NamedTuple):
    """The output of a policy with a value head."""

    logits: Any
    """Logits of the policy, unchanged."""
    values: Any
    """(m,) values of the wanted states, in single precision."""
    states: Any
    """(m, h) the wanted states, in single precision."""


class PolicyWithValues(torch.nn.Module):  # type: ignore[misc]
    """A model and its value head in one module, so that `accelerate` shares the gradients of both among processes."""

    def __init__(self, policy: Any) -> None:
        """policy: of transformers or peft. All values are 0 until the value head is fitted."""
        super().__init__()
        self.policy = policy
        self.head = torch.nn.Linear(policy.config.get_text_config().hidden_size, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.centre = 0.0
        self.scale = 0.0

    def forward(self, input_ids: Any, value_row: Any, value_place: Any, **more: Any) -> ValuedOutput:
        """input_ids: (b, t). value_row, value_place: (m,) sequences and places of the last token of the wanted states.
        more: goes to the policy."""
        found = self.policy(input_ids=input_ids, output_hidden_states=True, **more)
        states = found.hidden_states[-1][value_row, value_place]
        with torch.autocast(states.device.type, enabled=False):
            states = states.float()
            return ValuedOutput(found.logits, self.centre + self.scale * self.head(states)[:, 0], states)

    @property
    def unit(self) -> float:
        """The running standard deviation of the targets; 0 until the value head is fitted."""
        return self.scale

    def fit(self, states: Any, targets: Sequence[float], updates: int, learning_rate: float) -> None:
        """Fits the value head alone to targets, from the beginning; the policy stays as it is.

        states: (m, h). targets: (m,). Targets that are all equal leave it as it is, since they have no scale. Without
        updates, all values are the mean of the targets. Every process has to call it with the same numbers.
        """
        centre, variance = _moments(targets)
        if math.sqrt(variance) <= SMALLEST:
            return
        self.centre = centre
        self.scale = math.sqrt(variance)
        wanted = (torch.tensor(targets, device=states.device) - self.centre) / self.scale
        # states have much in common, and what they have in common explains nothing
        common = states.mean(dim=0)
        differing = states - common
        weight = torch.zeros(states.shape[1], device=states.device, requires_grad=True)
        bias = torch.zeros((), device=states.device, requires_grad=True)
        optimiser = torch.optim.AdamW([weight, bias], lr=learning_rate, weight_decay=0.0)
        for _ in range(updates):
            optimiser.zero_grad()
            (0.5 * (differing @ weight + bias - wanted) ** 2).mean().backward()
            optimiser.step()
        with torch.no_grad():
            _assign(self.head.weight, weight[None])
            _assign(self.head.bias, (bias - weight @ common)[None])

    def follow(self, targets: Sequence[float]) -> None:
        """Lets centre and scale follow the targets of a step; the values stay as they are."""
        centre, variance = _moments(targets)
        old_centre = self.centre
        old_scale = self.scale
        moved = centre - old_centre
        new_centre = old_centre + RATE * moved
        new_variance = (1 - RATE) * (old_scale**2 + RATE * moved**2) + RATE * variance
        new_scale = max(math.sqrt(new_variance), SMALLEST)
        with torch.no_grad():
            self.head.weight.mul_(old_scale / new_scale)
            self.head.bias.mul_(old_scale / new_scale).add_((old_centre - new_centre) / new_scale)
        self.centre = new_centre
        self.scale = new_scale


def _moments(numbers: Sequence[float]) -> tuple[float, float]:
    """Returns mean and variance; (0, 0) of no numbers."""
    if not numbers:
        return 0.0, 0.0
    mean = sum(numbers) / len(numbers)
    return mean, sum((number - mean) ** 2 for number in numbers) / len(numbers)


def _assign(parameter: Any, value: Any) -> None:
    """Gives a parameter, which may be sharded among processes (FSDP), a whole value."""
    if isinstance(parameter, DTensor):
        value = distribute_tensor(value, parameter.device_mesh, parameter.placements)
    parameter.copy_(value)


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
