"""Derived values: units, first-order uncertainties, bounds, levels."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from sciagent.domain.derived_properties import (
    DerivedProperty,
    Part,
    evaluated_in_unit,
    level_of,
    propagated_error,
    property_of,
    read_formula,
)
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.worth import KnownError

GFN2, PBE0 = Level("GFN2-xTB"), Level("PBE0", "def2-SVP")
IP, EA, GAP = (Position(1), "ip"), (Position(1), "ea"), (Position(2), "gap")
PARTS: Mapping[str, Part] = {"ip": IP, "ea": EA, "gap": GAP}


def value(formula: str, values: Mapping[Part, Quantity], unit: str = "eV") -> Quantity | None:
    read = read_formula(formula)
    parts = {name: PARTS[name] for name in read.parts}
    measured = DerivedProperty(property_of("x", unit), read, parts, GFN2, "hash").measured(values)
    return None if measured is None else measured.quantity


def known(ip: float | None = 0.02, ea: float | None = 0.03, gap: float | None = 0.01) -> dict[Part, Quantity]:
    return {IP: Quantity(9.0, "eV", ip), EA: Quantity(1.0, "eV", ea), GAP: Quantity(5.0, "eV", gap)}


def test_independent_parts_add_in_squares_as_drawn_values_scatter() -> None:
    rng = np.random.default_rng(1)
    ip, gap = rng.normal(9.0, 0.02, 200_000), rng.normal(5.0, 0.01, 200_000)
    found = value("ip * gap / 3 eV - 2 * gap", known())
    drawn = ip * gap / 3 - 2 * gap
    assert found is not None and found.uncertainty == pytest.approx(drawn.std(), rel=0.01)
    assert found.value == pytest.approx(9 * 5 / 3 - 10)


def test_parts_of_the_same_evidence_give_the_largest_uncertainty_of_any_correlation() -> None:
    half = value("(ip - ea) / 2", known())
    assert half is not None and (half.value, half.uncertainty) == (pytest.approx(4.0), pytest.approx(0.025))
    with_gap = value("(ip - ea) / 2 - gap", known())
    assert with_gap is not None and with_gap.uncertainty == pytest.approx(math.hypot(0.025, 0.01))
    nothing = value("ip - ip", known())
    assert nothing is not None and nothing.uncertainty == 0.0


def test_the_error_of_a_method_goes_through_a_formula_as_drawn_errors_do() -> None:
    """The electrophilicity (ip + ea)**2 / (8 (ip - ea)) and a difference, with a tolerance of 3 % for what is not of
    first order. Errors of one rung are drawn together, with the signs that make them add."""
    rng = np.random.default_rng(5)
    own = {"ip": KnownError(0.1, 0.05, 30), "ea": KnownError(-0.08, 0.04, 15), "gap": KnownError(0.2, 0.06, 12)}
    text = "(ip + ea) * (ip + ea) / (ip - ea) / 8 - 0.2 * gap"
    parts = {name: known()[PARTS[name]] for name in own}
    result = evaluated_in_unit(read_formula(text), parts, "eV")
    assert result is not None
    slopes = result.slopes
    found = propagated_error([(PARTS[name][0], slopes[name], error) for name, error in own.items()])
    assert found is not None and found.n == 12
    of_rung, of_other = rng.normal(size=400_000), rng.normal(size=400_000)
    ip = 9.0 + 0.1 + 0.05 * np.sign(slopes["ip"]) * of_rung
    ea = 1.0 - 0.08 + 0.04 * np.sign(slopes["ea"]) * of_rung
    gap = 5.0 + 0.2 + 0.06 * of_other
    errors = (ip + ea) ** 2 / (ip - ea) / 8 - 0.2 * gap - result.value
    assert found.bias == pytest.approx(errors.mean(), abs=0.03 * errors.std())
    assert found.spread == pytest.approx(errors.std(), rel=0.03)
    in_mev = evaluated_in_unit(read_formula(text), parts, "meV")
    assert in_mev is not None and in_mev.slopes["ip"] == pytest.approx(1000 * slopes["ip"])
    assert propagated_error([]) is None


def test_what_is_unknown_stays_unknown() -> None:
    unsure = value("ip - gap", known(gap=None))
    assert unsure is not None and unsure.uncertainty is None
    assert value("ip - gap", {IP: Quantity(9.0, "eV")}) is None
    assert value("ip / (gap - 5 eV) * 1 eV", known()) is None


@pytest.mark.parametrize(
    ("formula", "expected"),
    [("ip - gap", Censoring.BELOW), ("gap - ip", Censoring.ABOVE), ("gap * 2", Censoring.NONE), ("ip - ea", None)],
)
def test_a_bound_on_a_part_bounds_the_result(formula: str, expected: Censoring | None) -> None:
    bounds = {IP: Quantity(9.0, "eV", censoring=Censoring.BELOW), EA: Quantity(1.0, "eV", censoring=Censoring.BELOW)}
    found = value(formula, known() | bounds)
    assert (None if found is None else found.censoring) == expected


def test_the_canonical_unit_does_not_depend_on_the_unit_that_is_chosen() -> None:
    assert property_of("x", "kJ/mol") == property_of("x", "eV") and property_of("x", "kJ/mol").unit == "eV"
    assert property_of("x", "V").units == ("V", "mV") and property_of("x", "m").units == ("m",)
    found = value("ip - 4.44 eV", known(), "kJ/mol")
    assert found is not None and (found.unit, found.value) == ("eV", pytest.approx(4.56))


def test_the_level_is_that_of_the_parts() -> None:
    assert level_of([GFN2, GFN2]) == GFN2 and level_of([GFN2, PBE0, GFN2]).label == "GFN2-xTB and PBE0/def2-SVP"


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("class", "class"), "class"),
        (("molecule", "class"), "class"),
        (("molecule", "molecule"), "molecule"),
        ((None, "class"), None),
        (("mean", "mean"), None),
    ],
)
def test_the_uncertainty_is_that_of_a_class_if_that_of_any_part_is(kinds, expected) -> None:
    ip, gap = (Quantity(9.0, "eV", 0.1, uncertainty_kind=kind) for kind in kinds)
    found = value("ip - gap", {IP: ip, GAP: gap})
    assert found is not None and found.uncertainty_kind == expected
