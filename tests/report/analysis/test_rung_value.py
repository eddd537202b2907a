"""Which rungs earn their keep, in figures and in words."""

from __future__ import annotations

from typing import Any

import pytest

from sciagent.domain.answers.status import RungWorth
from sciagent.report.analysis.rung_value import ladder_worth


def value(worth: float, **without: float) -> dict[str, Any]:
    return {"worth": worth, "without": without}


def test_what_a_rung_brings_is_what_would_be_lost_without_it() -> None:
    found = ladder_worth(value(4.0, xtb=1.5, ff=3.99), "hits")
    assert [(rung.rung, rung.brings) for rung in found.rungs] == [("xtb", 2.5), ("ff", pytest.approx(0.01))]
    assert found.words == (
        "the candidates ahead are worth 4 hits beyond what they will cost; "
        "xtb brings 2.5 of it, ff looks worthless for them"
    )


def test_nothing_is_said_of_rungs_where_nothing_is_worth_anything() -> None:
    found = ladder_worth(value(0.0, xtb=0.0), "best")
    assert found.words == "the candidates ahead are worth 0 payoff beyond what they will cost"
    assert ladder_worth(value(2.0), "graded").words.endswith("worth 2 payoff beyond what they will cost")


def test_a_rung_is_never_said_to_cost_value() -> None:
    """Plans are approximate by a per cent: without a rung the sum may come out higher."""
    assert ladder_worth(value(1.0, xtb=1.004), "hits").rungs == (RungWorth(rung="xtb", brings=0.0),)
