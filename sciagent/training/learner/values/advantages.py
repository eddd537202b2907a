"""Advantages of the turns of episodes, from their rewards and from what a value head expects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sciagent.rewards.credit import gae
from sciagent.rewards.credit.returns import Numbers, mean_of, outcome_of
from sciagent.training.learner.rows import TrainingRow, TurnValue
from sciagent.training.learner.settings import CriticSettings

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
    return _advantages(rows, nothing, replace(settings, decay=1.0))


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
