"""The reference of every key is what the models say, and leaves no key unexplained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.key_reference import reference
from sciagent.domain.properties_and_levels import HOUSE, properties
from sciagent.verification.verifier_registry import provider, verifier_class, verifier_names

PAGE = Path(__file__).parents[3] / "docs" / "reference.md"
OURS = [name for name in verifier_names() if provider(name).split()[0] == "sciagent"]


def test_the_page_is_made_from_the_models_as_they_are() -> None:
    assert PAGE.read_text() == reference("sciagent"), "sciagent schema --markdown > docs/reference.md"


def test_every_key_of_the_campaign_and_every_property_stands_in_it() -> None:
    page = reference("sciagent")
    ours = [name for name in properties() if properties().provider(name) == HOUSE]
    for name in (*CampaignSpec.model_fields, *ours, *OURS):
        assert f"`{name}`" in page, name


@pytest.mark.parametrize("name", OURS)
def test_every_setting_of_a_verifier_is_explained(name: str) -> None:
    page = reference("sciagent")
    part = re.search(rf"^### `{re.escape(name)}`\n(.*?)(?=^### |^## )", page, re.M | re.S)
    assert part is not None
    for key in verifier_class(name).Settings.model_fields:
        row = re.search(rf"^\| (?:\*\*)?`{key}`(?:\*\*)? \|.*$", part[1], re.M)
        assert row is not None, key
        assert not row[0].endswith("|  |"), f"{name}: {key} has no description"


def test_no_row_of_a_table_is_without_a_meaning() -> None:
    rows = [line for line in reference("sciagent").splitlines() if line.startswith("| ")]
    assert [row for row in rows if row.endswith("|  |")] == []
