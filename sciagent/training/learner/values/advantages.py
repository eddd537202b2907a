"""Advantages of the turns of episodes, from their rewards and from what a value head expects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sciagent.rewards.credit import gae
from sciagent.rewards.credit.returns import Numbers, outcome_of
from sciagent.training.learner.rows import TrainingRow, TurnValue
from sciagent.training.learner.settings import CriticSettings

Values = Mapping[tuple[str, int], float]
"""Values by episode and number of the turn, before the turn is answered."""


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


def valued_rows(rows: Sequence[TrainingRow], values: Values, settings: CriticSettings) -> list[TrainingRow]:
    """Returns the rows with advantages, and with what the value head has to learn.

    Tokens of turns without an advantage are not trained, and neither are their values. Raises ValueError for a row
    without the rewards of its episode.
    """
    if any(row.episode is None for row in rows):
        raise ValueError("a value head needs rows with the rewards of their episodes")
    advantages: dict[tuple[str, int], float | None] = {}
    for episode, rewards in {row.episode.episode: row.episode.rewards for row in rows if row.episode}.items():
        own = {number: value for (name, number), value in values.items() if name == episode}
        advantages |= {(episode, number): found for number, found in of_turns(rewards, own, settings).items()}
    return [_valued(row, values, advantages) for row in rows]


def _valued(row: TrainingRow, values: Values, advantages: Mapping[tuple[str, int], float | None]) -> TrainingRow:
    if row.episode is None:
        return row
    by_token, learnt = [0.0] * len(row.ids), list[TurnValue]()
    mask = [False] * len(row.ids)
    for turn in row.episode.turns:
        at = row.episode.episode, turn.number
        if (advantage := advantages.get(at)) is None:
            continue
        places = range(turn.begin, turn.end)
        learnt.append(TurnValue(turn.begin, values[at], values[at] + advantage))
        for place in places:
            mask[place], by_token[place] = row.mask[place], advantage if row.mask[place] else 0.0
    return replace(row, mask=tuple(mask), advantages=tuple(by_token), values=tuple(learnt))


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
