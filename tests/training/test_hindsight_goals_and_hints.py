"""Moved windows: the value lies inside, and they look like the window that was stated."""

from __future__ import annotations

import pytest

from sciagent.domain.objectives import Direction, Objective, Window
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.training.hindsight_goals_and_hints import NotRelabelled, achieved

GAP = Objective("homo_lumo_gap", Direction.WINDOW, Window(3.0, 5.0))
LIMIT = Objective("dipole", Direction.LIMIT, Window(None, 2.5), scale=0.25)


@pytest.mark.parametrize("value", [-7.3, 0.1, 2.999, 5.001, 7.0, 8.4, 41.0])
def test_a_window_moves_by_whole_widths_until_the_value_is_inside(value: float) -> None:
    windows = achieved([GAP], {"homo_lumo_gap": Quantity(value, "eV")})
    assert isinstance(windows, dict)
    moved = windows["homo_lumo_gap"]
    assert moved.low is not None and moved.high is not None
    assert moved.low <= value <= moved.high
    assert moved.high - moved.low == pytest.approx(2.0)
    assert (moved.low - 3.0) / 2.0 == pytest.approx(round((moved.low - 3.0) / 2.0))


def test_only_missed_objectives_change() -> None:
    values = {"homo_lumo_gap": Quantity(4.0, "eV"), "dipole": Quantity(3.3, "D")}
    assert achieved([GAP, LIMIT], values) == {"dipole": Window(None, 3.5)}


def test_a_hit_and_a_value_that_nobody_knows_have_no_other_goal() -> None:
    assert achieved([GAP], {"homo_lumo_gap": Quantity(4.0, "eV")}) is NotRelabelled.NO_LIMIT
    assert achieved([GAP, LIMIT], {"homo_lumo_gap": Quantity(9.0, "eV")}) is NotRelabelled.NO_VALUE
    limit = Quantity(9.0, "eV", censoring=Censoring.ABOVE)
    assert achieved([GAP], {"homo_lumo_gap": limit}) is NotRelabelled.NO_VALUE
