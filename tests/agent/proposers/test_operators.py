"""Operators are drawn by what survives of their children, never below the floor."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from sciagent.agent.proposers.operators import FLOOR, HALF_LIFE, OperatorChoice, decay

NAMES = {"a": 1.0, "b": 1.0, "c": 1.0}


def choice(made: dict[str, float] | None = None, **more: bool) -> OperatorChoice:
    return OperatorChoice(NAMES, made, **more)


def test_without_evidence_all_are_alike() -> None:
    assert choice().weights({}) == pytest.approx([1 / 3] * 3)
    assert OperatorChoice({"a": 3.0, "b": 1.0}).weights({}) == pytest.approx([0.75, 0.25])


def test_what_survives_is_drawn_more_and_what_does_not_keeps_the_floor() -> None:
    weights = choice({"a": 300.0, "b": 300.0, "c": 300.0}).weights({"a": 60.0, "b": 20.0})
    assert sum(weights) == pytest.approx(1)
    assert weights[0] > weights[1] > weights[2] > FLOOR / 3
    # rates (60, 20, 0 + 10 * 90 / 910) / 310 and a share FLOOR of the mean rate for everybody
    prior = 10 * (80 + 10) / (900 + 10)
    rates = [(kept + prior) / 310 for kept in (60, 20, 0)]
    expected = [FLOOR * sum(rates) / 3 + (1 - FLOOR) * rate for rate in rates]
    assert weights == pytest.approx([e / sum(expected) for e in expected])


def test_counts_fade_with_every_child() -> None:
    one = choice()
    one.count("a")
    for _ in range(int(HALF_LIFE)):
        one.count("b")
    assert one.made["a"] == pytest.approx(0.5)
    assert one.made["b"] == pytest.approx(sum(decay(age) for age in range(int(HALF_LIFE))))
    assert decay(0) == 1 and decay(2 * HALF_LIFE) == pytest.approx(0.25)


def test_its_state_goes_through_json() -> None:
    one = choice()
    one.count("b")
    again = OperatorChoice(NAMES, json.loads(json.dumps(one.made)))
    assert again.weights({"b": 1.0}) == one.weights({"b": 1.0})
    assert OperatorChoice(NAMES, {"gone": 5.0}).made == {"a": 0.0, "b": 0.0, "c": 0.0}


def test_draws_follow_the_weights() -> None:
    rng = random.Random(0)
    drawn = Counter(choice().draw(rng, [0.7, 0.3, 0.0]) for _ in range(2000))
    assert drawn["c"] == 0 and 1330 < drawn["a"] < 1470
