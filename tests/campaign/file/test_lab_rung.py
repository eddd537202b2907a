"""The key `lab` of a rung: units in which quantities are entered first."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import CampaignSpec, parse_spec
from sciagent.errors import SpecError
from tests.lab.conftest import CAMPAIGN


def spec_with(units: str, base: Path) -> CampaignSpec:
    (base / "molecules.csv").write_text("smiles\nCCO\n", encoding="utf-8")
    text = CAMPAIGN.format(name="gaps", lab=f"{{units: {units}}}", budget="{lab_slots: 9}", high=4.6)
    return parse_spec(text.replace("[homo_lumo_gap]", "[homo_lumo_gap, melting_point, solubility]"), base=base)


def test_a_quantity_has_a_unit_of_its_own_and_a_file_without_one_is_as_before(tmp_path: Path) -> None:
    lab = spec_with("{melting_point: degC, solubility: mg/L}", tmp_path).ladder[-1].lab
    assert lab is not None and lab.units == {"melting_point": "degC", "solubility": "mg/L"}
    assert "units" not in spec_with("{}", tmp_path).canonical()["ladder"][-1]["lab"]


@pytest.mark.parametrize(
    ("units", "fault"),
    [
        ("{melting_point: degF}", r"lab\.units\.melting_point: .*is not entered in \"degF\"; did you mean \"degC\""),
        ("{boiling_point: degC}", r"lab\.units\.boiling_point: the rung does not ask for"),
        ("{melting_point: mg/L}", r"melting_point is not entered in \"mg/L\""),
        ("[degC]", r"lab\.units: "),
    ],
)
def test_a_unit_that_does_not_fit_is_named_with_its_place(units: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=fault):
        spec_with(units, tmp_path)
