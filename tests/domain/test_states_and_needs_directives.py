"""What people said of a candidate, folded: the last word counts, and a promotion outlives a hold but not a veto."""

from __future__ import annotations

import pytest

from sciagent.domain.states_and_needs import NOWHERE, SteeringState, fold_directives


def said(*verbs: str | tuple[str, int]) -> SteeringState:
    pairs = [v if isinstance(v, tuple) else (v, None) for v in verbs]
    return fold_directives((verb, position, f"who{i}", f"why{i}") for i, (verb, position) in enumerate(pairs))


def test_nothing_said_is_nothing_wanted() -> None:
    assert said() == SteeringState() and not said("add").blocks_scheduling


@pytest.mark.parametrize(
    ("verbs", "held", "vetoed", "promoted_to"),
    [
        (("hold",), True, False, NOWHERE),
        (("hold", "release"), False, False, NOWHERE),
        (("veto",), False, True, NOWHERE),
        (("veto", "release"), False, False, NOWHERE),
        (("hold", "veto", "release"), False, False, NOWHERE),
        ((("promote", 2),), False, False, 2),
        ((("promote", 2), ("promote", 1)), False, False, 2),
        ((("promote", 2), "hold", "release"), False, False, 2),
        ((("promote", 2), "veto", "release"), False, False, NOWHERE),
    ],
)
def test_the_last_word_counts(verbs: tuple, held: bool, vetoed: bool, promoted_to: int) -> None:
    word = said(*verbs)
    assert (word.held, word.vetoed, word.promoted_to) == (held, vetoed, promoted_to)
    assert word.blocks_scheduling is (held or vetoed)
    assert word.who == f"who{len(verbs) - 1}" and word.why == f"why{len(verbs) - 1}"
