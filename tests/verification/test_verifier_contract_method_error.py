"""The error of a method against experiment."""

from __future__ import annotations

from typing import Any

import pytest

from sciagent.domain.properties_and_levels import Level
from sciagent.verification.verifier_contract import ChargeClass, MethodError


def test_errors_that_cannot_be_of_one_set_are_refused() -> None:
    with pytest.raises(ValueError, match="one set"):
        MethodError("dipole", "GFN2-xTB", 46, 0.5, 0.4, "D", "organics", "a file")
    with pytest.raises(ValueError, match="one set"):
        MethodError("dipole", "GFN2-xTB", 1, 0.1, 0.4, "D", "organics", "a file")
    with pytest.raises(ValueError, match='charge is "cation"; it takes: neutral, ion, any'):
        MethodError("dipole", "GFN2-xTB", 46, 0.3, 0.4, "D", "organics", "a file", charge="cation")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("charge", "of_neutral", "of_cation"), [("neutral", True, False), ("ion", False, True), ("any", True, True)]
)
def test_it_holds_for_molecules_of_its_charge(charge: Any, of_neutral: bool, of_cation: bool) -> None:
    error = MethodError("dipole", "GFN2-xTB", 46, 0.3, 0.4, "D", "organics", "a file", charge=charge)
    assert error.holds_for_charge(ChargeClass.of(0)) is of_neutral
    assert error.holds_for_charge(ChargeClass.of(2)) is of_cation


def test_it_holds_for_one_property_at_one_level_whatever_made_the_geometry() -> None:
    error = MethodError("dipole", "GFN2-xTB", 46, 0.3, 0.4, "D", "organics", "a file")
    assert error.holds_for("dipole", Level("GFN2-xTB", phase="gas", geometry="MMFF94//ETKDGv3x5"))
    assert not error.holds_for("homo", Level("GFN2-xTB", phase="gas"))
    assert not error.holds_for("dipole", Level("GFN2-xTB", phase="water"))
    assert not error.holds_for("dipole", Level("PBE0", "def2-SVP", "gas"))
