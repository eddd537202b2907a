"""Cost vectors."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sciagent.domain.cost_and_budget import RESOURCE_UNITS, Cost

COSTS = st.dictionaries(st.sampled_from(sorted(RESOURCE_UNITS)), st.floats(0, 1e12)).map(Cost)


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf, -math.inf])
def test_only_finite_amounts_that_are_not_negative(amount: float) -> None:
    with pytest.raises(ValueError, match="core_seconds"):
        Cost(core_seconds=amount)


def test_an_unknown_resource_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown resource 'cpu'; known: core_seconds"):
        Cost(cpu=1)


def test_zero_is_nothing() -> None:
    assert dict(Cost(core_seconds=0, money=2)) == {"money": 2.0}
    assert len(Cost()) == 0 and repr(Cost(money=2)) == "Cost(money=2)"


@given(COSTS, COSTS)
def test_costs_add_by_resource(a: Cost, b: Cost) -> None:
    assert a + b == b + a and a + Cost() == a
    for resource in RESOURCE_UNITS:
        assert (a + b).get(resource, 0.0) == a.get(resource, 0.0) + b.get(resource, 0.0)
