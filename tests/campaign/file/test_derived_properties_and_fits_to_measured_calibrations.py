"""What `calibrate` in a campaign file asks for, and where it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.errors import SpecError
from tests.campaign.driving.test_driver_refitting import CALIBRATE, SPEC


@pytest.fixture(autouse=True)
def _seeds(tmp_path: Path) -> None:
    (tmp_path / "alkanes.csv").write_text("smiles\nC\n")


def test_calibrate_is_refused_where_it_has_no_effect_or_stands_twice(tmp_path: Path) -> None:
    text = SPEC.format(name="twice", calibrate=CALIBRATE)
    (tmp_path / "twice.yaml").write_text(text.replace("molecule.checks\n", f"molecule.checks\n    {CALIBRATE}\n"))
    with pytest.raises(SpecError, match='rung "checks", which measures it, states calibrate, too'):
        load_spec(tmp_path / "twice.yaml")


def test_calibrate_is_refused_beside_derived_properties(tmp_path: Path) -> None:
    derived = "derived:\n  - {property: twice_logp, formula: 2 * logp}\nladder:"
    (tmp_path / "both.yaml").write_text(SPEC.format(name="both", calibrate=CALIBRATE).replace("ladder:", derived))
    with pytest.raises(SpecError, match="a campaign with derived properties cannot calibrate yet"):
        load_spec(tmp_path / "both.yaml")


def test_a_spec_without_the_key_has_the_hash_that_it_had(tmp_path: Path) -> None:
    (tmp_path / "bare.yaml").write_text(SPEC.format(name="bare", calibrate="weight: 1.0"))
    canonical = load_spec(tmp_path / "bare.yaml").canonical()
    assert "calibrate" not in canonical["objectives"][0]
    assert all("calibrate" not in rung for rung in canonical["ladder"])
