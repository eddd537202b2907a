"""A campaign is opened again by the file that made it; another search needs another name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open, open_campaign_for_people
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import write_campaign


def opened(folder: Path, *edits: tuple[str, str]) -> Built:
    text = write_campaign(folder, evolve=True).read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    spec = parse_spec(text, name="small.yaml", base=folder)
    return create_or_open(Ledger(str(folder / "sciagent.db")), spec, text, "ann").built


def test_another_seed_needs_another_name_and_another_budget_does_not(tmp_path: Path) -> None:
    built = opened(tmp_path)
    with pytest.raises(UsageError, match="with another spec:\n  seed: 1 -> 2\n"):
        opened(tmp_path, ("seed: 1", "seed: 2"))
    amended = opened(tmp_path, ("dft: 5", "dft: 6"))
    assert amended.row.id == built.row.id
    assert open_campaign_for_people(built.ledger, "small").limit_by_rung == {amended.terminal: 6}
