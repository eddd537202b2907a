"""The value head of a policy: a linear layer on the last hidden states, its loss, and the advantages by its values.

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

from sciagent.rewards.credit.outcome_return_to_go_gigpo_gae import gae_advantages
from sciagent.rewards.credit.returns_and_baselines import Numbers, mean_of, outcome_of
from sciagent.training.learner.learner_rows_and_rendered_conversations import TrainingRow, TurnValue
from sciagent.training.settings import CriticSettings

Turn = tuple[str, int]
"""A turn: its episode, and its number there."""
Values = Mapping[Turn, float]
"""The value of each turn: what the episode is expected to earn from it on, before it is answered."""
Decided = Mapping[Turn, float | None]
"""A number for each turn; None where a reward is undecided."""


def turn_advantages(rewards: Numbers, values: Mapping[int, float], settings: CriticSettings) -> dict[int, float | None]:
    """Returns the advantages of an episode's turns that have values, by number; None where a reward is undecided.

    rewards: (turns,) of the episode. values: by number of the turn. A turn without tokens has no value; its reward
    counts for the last turn before it that has one.
    """
    begins = sorted(number for number in values if number < len(rewards))
    ends = [*begins[1:], len(rewards)]
    earned = [outcome_of(rewards[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    expected = [values[number] for number in begins]
    advantages = gae_advantages(earned, expected, discount=settings.discount, decay=settings.decay)
    return dict(zip(begins, advantages, strict=True))


def returns_to_go(rows: Sequence[TrainingRow], settings: CriticSettings) -> Decided:
    """Returns what the episodes earned from each of their turns on, with the discount of the settings.

    Raises ValueError for a row without the rewards of its episode.
    """
    zero_values: dict[Turn, float] = {}
    for row in rows:
        if row.episode is not None:
            zero_values.update({(row.episode.episode, turn.number): 0.0 for turn in row.episode.turns})
    # with values of 0 and a decay of 1, the advantage of a turn is its return
    return _advantages(rows, zero_values, settings.model_copy(update={"decay": 1.0}))


def sibling_means(rows: Sequence[TrainingRow], to_go: Decided, otherwise: Values) -> Values:
    """Returns for each turn the mean of what the other episodes of its group earned from the same turn on.

    A turn's own reward is not in its mean; therefore the mean is a baseline without bias. Where no other sibling has a
    decided return from that turn on, the value in `otherwise` stands for the mean.
    """
    groups = {row.episode.episode: row.episode.group for row in rows if row.episode and row.episode.group is not None}
    earned: dict[tuple[str, int], list[float]] = {}
    for (episode, number), value in to_go.items():
        if episode in groups and value is not None:
            earned.setdefault((groups[episode], number), []).append(value)
    means = dict(otherwise)
    for (episode, number), value in to_go.items():
        returns_of_group = earned.get((groups.get(episode, ""), number), [])  # empty for an episode without siblings
        n_others = len(returns_of_group) - 1
        if value is not None and n_others > 0:
            means[episode, number] = (sum(returns_of_group) - value) / n_others
    return means


def valued_rows(
    rows: Sequence[TrainingRow], values: Values, settings: CriticSettings, baseline: Values | None = None
) -> list[TrainingRow]:
    """Returns the rows with advantages, and with the targets of the value head.

    values: by the value head as it is. baseline: the values from which advantages and targets follow; None: `values`.
    The mean advantage of all turns is subtracted from each. A turn without an advantage trains neither its tokens nor
    its value. Raises ValueError for a row without the rewards of its episode.
    """
    expected = values if baseline is None else baseline
    advantages = _advantages(rows, expected, settings)
    centre = mean_of(advantages.values()) or 0.0
    learnt: dict[Turn, _Learnt] = {}
    for turn, advantage in advantages.items():
        if advantage is not None:
            # `_valued` sets the place, which differs from row to row
            target = TurnValue(begin=0, before=values[turn], target=expected[turn] + advantage)
            learnt[turn] = _Learnt(advantage - centre, target)
    return [_valued(row, learnt) for row in rows]


class _Learnt(NamedTuple):
    """The advantage of a turn, and the target of its value."""

    advantage: float
    value: TurnValue
    """The target, whose place in a row is not known yet."""


def _advantages(rows: Sequence[TrainingRow], values: Values, settings: CriticSettings) -> Decided:
    """Returns the advantages of all turns that have values; None where a reward is undecided."""
    if any(row.episode is None for row in rows):
        raise ValueError("a value head needs rows with the rewards of their episodes")
    by_episode: dict[str, dict[int, float]] = {}
    for (episode, number), value in values.items():
        by_episode.setdefault(episode, {})[number] = value
    rewards_by_episode = {row.episode.episode: row.episode.rewards for row in rows if row.episode}
    advantages: dict[Turn, float | None] = {}
    for episode, rewards in rewards_by_episode.items():
        by_turn = turn_advantages(rewards, by_episode.get(episode, {}), settings)
        for number, advantage in by_turn.items():
            advantages[episode, number] = advantage
    return advantages


def _valued(row: TrainingRow, learnt: Mapping[Turn, _Learnt]) -> TrainingRow:
    """Returns the row with the advantages and value targets of its turns. Other tokens are not trained."""
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

    1: the values are the targets; 0: they are no better than the mean of the targets; below 0: they are worse.
    """
    pairs = [(value.target, value.target - value.before) for value in targets(rows)]
    if not pairs:
        return None
    target_variance = _variance([target for target, _ in pairs])
    error_variance = _variance([error for _, error in pairs])
    return None if target_variance == 0 else 1 - error_variance / target_variance


def _variance(numbers: Sequence[float]) -> float:
    mean = sum(numbers) / len(numbers)
    return sum((number - mean) ** 2 for number in numbers) / len(numbers)


STEP_SHARE = 0.1
"""Share that the targets of one step have in the running mean and variance."""
MIN_DEVIATION = 1e-6
"""Targets with a smaller standard deviation count as all equal."""


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
        output = self.policy(input_ids=input_ids, output_hidden_states=True, **more)
        states = output.hidden_states[-1][value_row, value_place]
        with torch.autocast(states.device.type, enabled=False):
            states = states.float()
            values = self.centre + self.scale * self.head(states)[:, 0]
            return ValuedOutput(output.logits, values, states)

    @property
    def unit(self) -> float:
        """The running standard deviation of the targets; 0 until the value head is fitted."""
        return self.scale

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has found a scale."""
        return self.scale > 0

    def fit(self, states: Any, targets: Sequence[float], updates: int, learning_rate: float) -> None:
        """Fits the value head alone to targets, from the beginning; the policy stays as it is.

        states: (m, h). targets: (m,). If all targets are equal, the head stays as it is, since they have no scale. With
        0 updates, all values are the mean of the targets. Every process has to call it with the same numbers.
        """
        centre, variance = _moments(targets)
        if math.sqrt(variance) <= MIN_DEVIATION:
            return
        self.centre = centre
        self.scale = math.sqrt(variance)
        wanted = (torch.tensor(targets, device=states.device) - self.centre) / self.scale
        # the mean of the states is large and explains nothing: the layer is fitted to the differences from it
        mean_state = states.mean(dim=0)
        differences = states - mean_state
        weight = torch.zeros(states.shape[1], device=states.device, requires_grad=True)
        bias = torch.zeros((), device=states.device, requires_grad=True)
        optimiser = torch.optim.AdamW([weight, bias], lr=learning_rate, weight_decay=0.0)
        for _ in range(updates):
            optimiser.zero_grad()
            loss = (0.5 * (differences @ weight + bias - wanted) ** 2).mean()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            _assign(self.head.weight, weight[None])
            _assign(self.head.bias, (bias - weight @ mean_state)[None])

    def update_scale(self, targets: Sequence[float]) -> None:
        """Moves centre and scale towards those of a step's targets; the values stay as they are."""
        step_centre, step_variance = _moments(targets)
        old_centre = self.centre
        old_scale = self.scale
        shift = step_centre - old_centre
        new_centre = old_centre + STEP_SHARE * shift
        new_variance = (1 - STEP_SHARE) * (old_scale**2 + STEP_SHARE * shift**2) + STEP_SHARE * step_variance
        new_scale = max(math.sqrt(new_variance), MIN_DEVIATION)
        with torch.no_grad():
            self.head.weight.mul_(old_scale / new_scale)
            self.head.bias.mul_(old_scale / new_scale).add_((old_centre - new_centre) / new_scale)
        self.centre = new_centre
        self.scale = new_scale


def _moments(numbers: Sequence[float]) -> tuple[float, float]:
    """Returns mean and variance; 0 and 0 if there are no numbers."""
    if not numbers:
        return 0.0, 0.0
    mean = sum(numbers) / len(numbers)
    return mean, sum((number - mean) ** 2 for number in numbers) / len(numbers)


def _assign(parameter: Any, value: Any) -> None:
    """Sets a parameter, which may be sharded among processes (FSDP), to a value that is not sharded."""
    if isinstance(parameter, DTensor):
        value = distribute_tensor(value, parameter.device_mesh, parameter.placements)
    parameter.copy_(value)


class ValueBatch(NamedTuple):
    """The m states of a micro-batch whose values are learnt."""

    row: Any
    """(m,) number of the row in the micro-batch."""
    place: Any
    """(m,) place in the row of the last token before the turn, whose hidden state is the state."""
    before: Any
    """(m,) values at the start of the step."""
    target: Any
    """(m,) values that the head has to learn."""


def value_batch(rows: Sequence[TrainingRow], device: Any) -> ValueBatch:
    """Returns the targets of the rows for the value head, as tensors."""
    numbered_values = [(number, value) for number, row in enumerate(rows) for value in row.values]

    def whole(numbers: list[int]) -> Any:
        return torch.tensor(numbers, dtype=torch.long, device=device)

    def real(numbers: list[float]) -> Any:
        return torch.tensor(numbers, dtype=torch.float32, device=device)

    return ValueBatch(
        row=whole([number for number, _ in numbered_values]),
        place=whole([value.begin - 1 for _, value in numbered_values]),
        before=real([value.before for _, value in numbered_values]),
        target=real([value.target for _, value in numbered_values]),
    )


def values_of(model: Any, parts: Sequence[Sequence[TrainingRow]], device: Any) -> Values:
    """Returns the values before each turn of the rows, by the model as it is now. Every process has to call it.

    model: a `PolicyWithValues`, or its wrapping. parts: the micro-batches of this process.
    """
    return _by_turn(model, parts, device, lambda output: output.values.tolist())


def states_of(model: Any, parts: Sequence[Sequence[TrainingRow]], device: Any) -> Mapping[Turn, Any]:
    """Returns the (h,) states before each turn of the rows, as `values_of` returns their values."""
    return _by_turn(model, parts, device, lambda output: list(output.states.cpu()))


def _by_turn(
    model: Any, parts: Sequence[Sequence[TrainingRow]], device: Any, read: Callable[[ValuedOutput], Sequence[Any]]
) -> dict[Turn, Any]:
    """Returns what `read` finds in the model's output for each turn of the rows of all processes.

    A turn that several rows have gets the result of the first of them.
    """
    own_results: dict[Turn, Any] = {}
    for part in parts:
        turns: list[Turn] = []
        row_numbers: list[int] = []
        places: list[int] = []
        for row_number, row in enumerate(part):
            if row.episode is not None:
                for turn in row.episode.turns:
                    turns.append((row.episode.episode, turn.number))
                    row_numbers.append(row_number)
                    places.append(turn.begin - 1)
        longest = max(len(row.ids) for row in part)
        padded_ids = [[*row.ids, *[0] * (longest - len(row.ids))] for row in part]
        inputs = {
            "input_ids": torch.tensor(padded_ids, device=device),
            "value_row": torch.tensor(row_numbers, dtype=torch.long, device=device),
            "value_place": torch.tensor(places, dtype=torch.long, device=device),
            "logits_to_keep": torch.zeros(1, dtype=torch.long, device=device),  # logits are not needed
        }
        with torch.no_grad():
            output = model(use_cache=False, **inputs)
        for named_turn, result in zip(turns, read(output), strict=True):
            own_results.setdefault(named_turn, result)
    merged: dict[Turn, Any] = {}
    for results_of_process in gather_object([own_results]):
        merged = results_of_process | merged  # results that an earlier process gave stay
    return merged


def value_loss(values: Any, batch: ValueBatch, clip: float | None) -> Any:
    """Returns (m,) losses: half the square of the error.

    With a clip the losses are those of PPO2: the larger of the loss of the value, and of the loss of the value whose
    change is clipped.

    values: (m,) by the model as it is now. clip: largest change of a value within a step that still lowers the loss, in
    the unit of the values; None: no limit.
    Source: Schulman et al. (2017), arXiv:1707.06347, as implemented in OpenAI's baselines.
    """
    if clip is None:
        return 0.5 * (values - batch.target) ** 2
    clipped_values = batch.before + (values - batch.before).clamp(-clip, clip)
    return 0.5 * torch.maximum((values - batch.target) ** 2, (clipped_values - batch.target) ** 2)
