"""Two laws, weighted by their record, as one forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.prediction_interval_width import PredictionInterval
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Law, Question, Stack, foretell

Array = NDArray[np.float64]


ANSWERS, OTHERS, SEEDS = 600, 3000, range(8)


def ladder(errors: Array, seed: int) -> Array:
    """(n, 2) scores: the terminal one is the lower one and an error of half its spread."""
    lower = np.random.default_rng(seed).standard_normal(len(errors))
    return np.column_stack([lower, lower + 0.5 * errors])


def learnt(whole: Array, truth: TruthTransform, answers: int = ANSWERS) -> list[Law]:
    scores = whole.copy()
    scores[answers:, -1] = np.nan
    return Stack(None).fit([Question(scores, truth)], answers)


def normal(seed: int) -> Array:
    return np.random.default_rng(100 + seed).standard_normal(ANSWERS + OTHERS)


def within(told: PredictionInterval, answers: Array) -> NDArray[np.bool_]:
    return (told.low <= answers) & (answers <= told.high)


def test_of_two_laws_that_disagree_the_interval_holds_both_means() -> None:
    """Their disagreement is part of the mixture's variance."""
    whole = ladder(normal(0), 0)
    [one], [other] = (learnt(rows, TruthTransform(0.0, 1.0)) for rows in (whole, whole + np.array([0.0, 3.0])))
    of = np.arange(ANSWERS, ANSWERS + 50)
    alone = [foretell([law], 0, of) for law in (one, other)]
    both = foretell([replace(one, weight=0.5), replace(other, weight=0.5)], 0, of)
    assert both.mean == pytest.approx((alone[0].mean + alone[1].mean) / 2)
    for law in alone:
        assert within(both, law.mean).all()
