"""The probability that one answer is worth more than another, from the verified values and their uncertainties."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.objectives import Objective, utility
from sciagent.domain.quantities import Censoring
from sciagent.rewards.estimators import Settlement
from sciagent.training.reading import AnsweredTurn
from sciagent.training.verdicts import CandidateVerdict

DRAWS = 512
"""Values of each property that stand for its distribution: its quantiles (i + 1/2) / DRAWS."""

Utilities = NDArray[np.float64]


def utilities(
    objectives: Sequence[Objective], turn: AnsweredTurn, verdicts: Sequence[CandidateVerdict]
) -> Utilities | None:
    """Returns the utility of the best candidate of a turn as (DRAWS,) equally likely values.

    A turn whose proposals were all refused or known is worth 0. None: a candidate is undecided, the turn proposed
    nothing, or a value has no uncertainty.
    """
    if not turn.proposals:
        return None
    best = np.zeros(DRAWS)
    for verdict in verdicts:
        match verdict.state.settlement:
            case Settlement.REFUSED:
                continue
            case Settlement.ANSWERED:
                drawn = _drawn(objectives, verdict)
                if drawn is None:
                    return None
                best = np.maximum(best, drawn)
            case _:
                return None
    return best


def _drawn(objectives: Sequence[Objective], verdict: CandidateVerdict) -> Utilities | None:
    """Returns (DRAWS,) utilities of a candidate whose values are normal with their standard uncertainties."""
    quantiles = [NormalDist().inv_cdf((i + 0.5) / DRAWS) for i in range(DRAWS)]
    values: dict[str, list[float]] = {}
    for objective in objectives:
        quantity = verdict.values.get(objective.property)
        if quantity is None or quantity.uncertainty is None or quantity.censoring is not Censoring.NONE:
            return None
        order = quantiles.copy()
        Random(f"{verdict.key} {objective.property}").shuffle(order)  # errors of two properties are independent
        values[objective.property] = [quantity.value + quantity.uncertainty * each for each in order]
    rows = (utility(objectives, {name: drawn[i] for name, drawn in values.items()}) for i in range(DRAWS))
    return np.array([0.0 if each is None else each for each in rows])


def p_better(one: Utilities, other: Utilities) -> float:
    """Returns the probability that a value of `one` is above a value of `other`; equal values count one half.

    Both are independent; every value of one is compared with every value of the other.
    """
    ordered = np.sort(other)
    below = np.searchsorted(ordered, one, side="left")
    up_to = np.searchsorted(ordered, one, side="right")
    return float((below + up_to).mean() / (2 * len(ordered)))
