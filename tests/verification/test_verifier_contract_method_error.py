"""The error of a method against experiment."""

from __future__ import annotations

import pytest

from sciagent.domain.properties_and_levels import Level
from sciagent.verification.verifier_contract import MethodError


def test_errors_that_cannot_be_of_one_set_are_refused() -> None:
    with pytest.raises(ValueError, match="one set"):
        MethodError("dipole", "GFN2-xTB", 46, 0.5, 0.4, "D", "organics", "a file")
    with pytest.raises(ValueError, match="one set"):
        MethodError("dipole", "GFN2-xTB", 1, 0.1, 0.4, "D", "organics", "a file")


def test_it_holds_for_one_property_at_one_level_whatever_made_the_geometry() -> None:
    error = MethodError("dipole", "GFN2-xTB", 46, 0.3, 0.4, "D", "organics", "a file")
    assert error.holds_for("dipole", Level("GFN2-xTB", phase="gas", geometry="MMFF94//ETKDGv3x5"))
    assert not error.holds_for("homo", Level("GFN2-xTB", phase="gas"))
    assert not error.holds_for("dipole", Level("GFN2-xTB", phase="water"))
    assert not error.holds_for("dipole", Level("PBE0", "def2-SVP", "gas"))
