"""Properties that a laboratory measures: all their units convert."""

from __future__ import annotations

import pytest

from sciagent.domain.properties_and_levels import Property, check_conversions, properties
from sciagent.domain.quantities import Quantity, from_canonical, in_canonical_unit
from sciagent_verifiers.world.lab_measurement_and_lab_properties import LAB_PROPERTIES


@pytest.mark.parametrize("prop", LAB_PROPERTIES, ids=lambda prop: prop.name)
def test_every_unit_converts_there_and_back(prop: Property) -> None:
    assert properties()[prop.name] == prop
    check_conversions(prop)
    for unit in prop.units:
        value = in_canonical_unit(2.5, unit, prop)
        assert from_canonical(Quantity(value, prop.unit), prop, unit).value == pytest.approx(2.5)
