"""The worth of a candidate, whether the terminal rung has answered for it or not.

A worth is in the goal's unit: hits, or utility. None means that nothing is known yet that may be learned from.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, assert_never

from sciagent.rewards.spec import Unsettled


class Settlement(StrEnum):
    """The degree to which evidence has decided about a candidate."""

    ANSWERED = "answered"
    """The terminal rung has answered."""
    REFUSED = "refused"
    """A gate, a check or the terminal rung has thrown the candidate out."""
    KNOWN = "known"
    """The candidate was in the snapshot that its episode began with."""
    UNDECIDED = "undecided"
    """A job is under way, has crashed, was lost, or its answer decides nothing."""
    OPEN = "open"
    """Nothing more has been bought for the candidate."""


class CandidateState(NamedTuple):
    """The state of a candidate at a watermark."""

    settlement: Settlement
    payoff: float | None = None
    """Payoff by the terminal rung's answer; set if `settlement` is `ANSWERED`."""
    expected: float | None = None
    """Payoff that the law expects, without what later choices may add; None without a law."""
    chance: float | None = None
    """Probability with which the candidate was drawn for the terminal rung; None if no lot was drawn."""
    screened: bool = False
    """Whether a fast rung has thrown the candidate out."""


def worth(state: CandidateState, unsettled: Unsettled) -> float | None:
    """Returns the worth of a candidate; None if it is undecided.

    `robust` is the doubly robust estimate, Robins, Rotnitzky and Zhao (1994): what the law expects, corrected by the
    answers of those that a lot has drawn. It has no bias if the chance is right or if the law is. Its values may be
    negative or above the largest payoff. A candidate without a known chance is undecided under it.
    """
    if state.settlement is Settlement.KNOWN:
        return 0.0
    match unsettled:
        case "settled":
            return _settled(state)
        case "posterior":
            return state.expected if state.settlement is Settlement.OPEN else _settled(state)
        case "robust":
            return _robust(state)
    assert_never(unsettled)


def _settled(state: CandidateState) -> float | None:
    if state.settlement is Settlement.ANSWERED:
        return state.payoff
    return 0.0 if state.settlement is Settlement.REFUSED else None


def _robust(state: CandidateState) -> float | None:
    if state.settlement is Settlement.REFUSED and state.chance is None:
        return 0.0  # thrown out by what every candidate has to pass, before any lot
    if state.settlement is Settlement.UNDECIDED or state.expected is None or not state.chance:
        return None
    answer = _settled(state)
    return state.expected if answer is None else state.expected + (answer - state.expected) / state.chance
