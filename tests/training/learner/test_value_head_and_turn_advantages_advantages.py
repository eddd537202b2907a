"""Advantages by a value head, against numbers computed by hand."""

from __future__ import annotations

import pytest

from sciagent.training.learner.learner_rows_and_rendered_conversations import EpisodeTurns, RowTurn, TrainingRow
from sciagent.training.learner.value_head_and_turn_advantages import (
    explained_variance,
    returns_to_go,
    sibling_means,
    turn_advantages,
    valued_rows,
)
from sciagent.training.settings import CriticSettings

HALF = CriticSettings(discount=0.5, decay=0.5)


def row(episode: str, rewards: tuple[float | None, ...], *numbers: int, group: str | None = None) -> TrainingRow:
    """A row with an answer of two tokens for each turn, after a token of context; the first token is forced."""
    n = 1 + 3 * len(numbers)
    turns = tuple(RowTurn(number, 2 + 3 * place, 4 + 3 * place) for place, number in enumerate(numbers))
    mask = tuple(any(place == turn.end - 1 for turn in turns) for place in range(n))
    episode_turns = EpisodeTurns(episode, rewards, turns, group)
    return TrainingRow(*(tuple(range(n)), mask, (0.0,) * n, (-1.0,) * n), episode=episode_turns)


def test_advantages_are_those_computed_by_hand() -> None:
    # surprises: 1 + 0.5 * 4 - 2 = 1; 0 + 0.5 * 8 - 4 = 0; 6 - 8 = -2; each carries a quarter of the next one
    found = turn_advantages([1.0, 0.0, 6.0], {0: 2.0, 1: 4.0, 2: 8.0}, HALF)
    assert found == {2: -2.0, 1: -0.5, 0: 0.875}


def test_turns_without_tokens_earn_for_the_turn_before_them() -> None:
    found = turn_advantages([5.0, 1.0, 2.0, 3.0], {1: 1.0, 3: 1.0}, CriticSettings(decay=1.0))
    assert found == {3: 2.0, 1: 5.0}, "what came before the first value is not foreseen by anything"


def test_an_undecided_reward_leaves_its_turn_and_earlier_ones_out() -> None:
    values = {(name, number): 0.5 for name in "ab" for number in range(3)}
    rows = [row("a", (1.0, None, 1.0), 0, 1), row("a", (1.0, None, 1.0), 2), row("b", (0.0, 0.0, 1.0), 0, 2)]
    first, second, other = valued_rows(rows, values, CriticSettings(decay=1.0))
    assert not any(first.mask) and first.values == ()
    assert [place for place, used in enumerate(second.mask) if used] == [3]
    assert [(value.begin, value.before, value.target) for value in second.values] == [(2, 0.5, 1.0)]
    assert [(value.before, value.target) for value in other.values] == [(0.5, 1.0), (0.5, 1.0)]
    with pytest.raises(ValueError, match="rewards of their episodes"):
        valued_rows([TrainingRow((1, 2), (False, True), (0.0, 1.0))], {}, HALF)


def test_advantages_are_centred_by_their_mean_over_the_turns_of_a_step_and_targets_are_not() -> None:
    values = {("a", 0): 1.0, ("a", 1): 1.0, ("b", 0): 1.0}
    rows = [row("a", (0.0, 2.0), 0, 1), row("b", (5.0,), 0)]
    found = valued_rows(rows, values, CriticSettings(decay=1.0))
    advantages = [each.advantages[value.begin + 1] for each in found for value in each.values]
    assert advantages == [-1.0, -1.0, 2.0], "1, 1 and 4, less their mean"
    assert [value.target for each in found for value in each.values] == [2.0, 2.0, 5.0]


def test_a_turn_is_compared_with_what_its_siblings_earned_from_the_same_turn_on() -> None:
    rows = [
        row("a", (1.0, 2.0), 0, 1, group="first"),
        row("b", (0.0, 4.0), 0, 1, group="first"),
        row("c", (6.0,), 0, group="first"),
        row("d", (9.0, None), 0, 1, group="second"),
        row("e", (7.0,), 0, group="second"),
        row("f", (8.0,), 0),
    ]
    to_go = returns_to_go(rows, CriticSettings(decay=0.0))
    assert to_go == {
        ("a", 0): 3.0,
        ("a", 1): 2.0,
        ("b", 0): 4.0,
        ("b", 1): 4.0,
        ("c", 0): 6.0,
        ("d", 0): None,
        ("d", 1): None,
        ("e", 0): 7.0,
        ("f", 0): 8.0,
    }
    assert returns_to_go(rows, HALF)["a", 0] == 2.0, "the second reward is discounted"
    otherwise = dict.fromkeys(to_go, -1.0)
    means = sibling_means(rows, to_go, otherwise)
    assert [means["a", 0], means["b", 0], means["c", 0]] == [5.0, 4.5, 3.5]
    assert [means["a", 1], means["b", 1]] == [4.0, 2.0], "only two siblings reached the second turn"
    alone = [means[at] for at in (("d", 0), ("d", 1), ("e", 0), ("f", 0))]
    assert alone == [-1.0] * 4, "no other sibling has a decided return"


def test_explained_variance_is_1_for_perfect_values_and_0_for_their_mean() -> None:
    rows = [row("a", (0.0,), 0), row("b", (1.0,), 0), row("c", (2.0,), 0)]
    perfect, mean = ({("a", 0): low, ("b", 0): 1.0, ("c", 0): high} for low, high in ((0.0, 2.0), (1.0, 1.0)))
    settings = CriticSettings(decay=1.0)
    assert explained_variance(valued_rows(rows, perfect, settings)) == 1.0
    assert explained_variance(valued_rows(rows, mean, settings)) == 0.0
    assert explained_variance(valued_rows(rows[:1], mean, settings)) is None
