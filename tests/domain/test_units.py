"""Units that a factor converts, and those that need a function for the value and one for the uncertainty."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import cloudpickle
import pytest
from pydantic import ValidationError

from sciagent.campaign.file import objectives_and_budget
from sciagent.campaign.file.objectives_and_budget import ObjectiveSpec
from sciagent.domain.properties_and_levels import GROUP, Property, PropertyRegistry, check_conversions, properties
from sciagent.domain.quantities import Censoring, Quantity, conversion_factor, from_canonical, to_canonical
from sciagent.domain.units import CELSIUS_TO_KELVIN, Conversion, unit_words
from sciagent.errors import UnitError

PLANCK = 1239.841984  # eV nm
MELTING = Property("melting_point", ("K", "degC"), "melting point", low=0, conversions=(CELSIUS_TO_KELVIN,))
BAND = Property(
    "band",
    ("eV", "nm"),
    "excitation energy",
    conversions=(
        Conversion("nm", lambda nm: PLANCK / nm, lambda ev: PLANCK / ev, lambda nm, error: PLANCK / nm**2 * error),
    ),
)


@pytest.mark.parametrize(
    ("canonical", "unit"), [("K", "degC"), ("K", "degF"), ("mW", "dBm"), ("nm", "1/nm"), ("eV", "nm"), ("eV", "pH?;")]
)
def test_a_unit_that_no_factor_converts_is_refused_when_registered_and_when_used(canonical: str, unit: str) -> None:
    bare = Property("melting_point", (canonical, unit), "melting point")
    with pytest.raises(UnitError, match=f"melting_point: no factor converts .* to .{canonical}.*register a Conversion"):
        check_conversions(bare)
    with pytest.raises(UnitError, match="no factor converts"):
        to_canonical(Quantity(25.0, unit, 0.5), bare)
    with pytest.raises(UnitError, match="no factor converts"):
        conversion_factor(unit, bare)


def test_a_conversion_shifts_the_value_and_leaves_the_uncertainty() -> None:
    check_conversions(MELTING)
    made = to_canonical(Quantity(25.0, "degC", 0.5, Censoring.BELOW, 3, "25.0 degC"), MELTING)
    assert made == Quantity(298.15, "K", 0.5, Censoring.BELOW, 3, "25.0 degC")


def test_a_falling_conversion_turns_the_censoring_round() -> None:
    made = to_canonical(Quantity(400.0, "nm", 2.0, Censoring.ABOVE), BAND)
    assert (made.value, made.uncertainty) == (pytest.approx(3.0996, rel=1e-5), pytest.approx(0.0154980, rel=1e-5))
    assert made.censoring is Censoring.BELOW


@pytest.mark.parametrize(
    ("prop", "quantity"),
    [
        (MELTING, Quantity(25.0, "degC", 0.5, Censoring.BELOW)),
        (BAND, Quantity(400.0, "nm", 2.0, Censoring.ABOVE)),
        (properties()["homo_lumo_gap"], Quantity(0.15, "hartree", 0.01)),
    ],
)
def test_a_value_is_expressed_in_the_unit_it_was_converted_from(prop: Property, quantity: Quantity) -> None:
    back = from_canonical(to_canonical(quantity, prop), prop, quantity.unit)
    assert (back.unit, back.censoring) == (quantity.unit, quantity.censoring)
    assert (back.value, back.uncertainty) == pytest.approx((quantity.value, quantity.uncertainty), rel=1e-12)


def test_a_value_without_counterpart_in_a_unit_keeps_its_own() -> None:
    assert from_canonical(Quantity(0.0, "eV"), BAND, "nm") == Quantity(0.0, "eV")


def test_a_value_that_a_unit_cannot_have_is_refused() -> None:
    with pytest.raises(UnitError, match="band cannot be 0 nm; check the number and its unit"):
        to_canonical(Quantity(0.0, "nm"), BAND)


def test_a_conversion_of_a_unit_that_is_not_listed_is_refused() -> None:
    with pytest.raises(UnitError, match='has a conversion from "degC", which is not among its other units'):
        check_conversions(Property("melting_point", ("K",), "", conversions=(CELSIUS_TO_KELVIN,)))


@pytest.mark.parametrize(
    ("unit", "words"),
    [("1", "no unit"), ("degC", "°C"), ("umol/L", "µmol/L"), ("ug/mL", "µg/mL"), ("us", "µs"), ("mol/L", "mol/L")],
)
def test_a_unit_is_written_as_people_write_it(unit: str, words: str) -> None:
    assert unit_words(unit) == words


def test_limits_are_shifted_and_a_scale_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        objectives_and_budget, "properties", lambda: PropertyRegistry([(MELTING, "acme"), (BAND, "acme")])
    )
    stated = {"property": "melting_point", "unit": "degC", "window": [20.0, 30.0], "scale": 5.0}
    objective = ObjectiveSpec.model_validate(stated).domain()
    assert objective.accept is not None
    assert (objective.accept.low, objective.accept.high, objective.scale) == (293.15, 303.15, 5.0)
    with pytest.raises(ValidationError, match="limits of band are not stated in nm"):
        ObjectiveSpec.model_validate({"property": "band", "unit": "nm", "min": 300.0})


def test_a_package_whose_property_cannot_be_converted_is_set_aside_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare = EntryPoint("bare", "tests.domain.test_units:BARE", GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [bare])
    made = properties.__wrapped__()  # beside the registry of this process, which keeps what other tests have defined
    assert "bare_point" not in made
    [why] = made.broken.values()
    assert 'bare_point: no factor converts "degC" to "K"' in why


BARE = Property("bare_point", ("K", "degC"), "melting point")


def test_a_conversion_that_comes_from_another_process_is_the_same() -> None:
    known = properties()["absorption_maximum"]
    assert known.conversions and cloudpickle.loads(cloudpickle.dumps(known)) == known
    assert Conversion("degC", lambda v: v + 273.0, lambda v: v - 273.0, lambda v, u: u) != CELSIUS_TO_KELVIN
