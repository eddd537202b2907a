"""Amendments: the YAML keeps its comments, what may not change is refused, and every word is checked first."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open, open_stored
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.people import amend_pause_stop_and_resume
from sciagent.domain.states_and_needs import Verb
from sciagent.errors import SpecError, UsageError
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import write_campaign


@pytest.fixture
def row(ledger: Ledger, tmp_path: Path) -> CampaignRow:
    file = write_campaign(tmp_path, molecules=("C",), dft=2, workers=2)
    file.write_text(file.read_text().replace("goal: ", "# what we are after\ngoal: "))
    return create_or_open(ledger, load_spec(file), file.read_text(), "ann").built.row


def amend(ledger: Ledger, row: CampaignRow, source: str, base: Path) -> list[str]:
    spec, changes = amend_pause_stop_and_resume.differences(row, source, "edited.yaml", base)
    amend_pause_stop_and_resume.amend(ledger, spec, source, "ann", "two more days", changes)
    return changes


def test_values_go_into_the_yaml_and_comments_stay(ledger: Ledger, row: CampaignRow, tmp_path: Path) -> None:
    source = amend_pause_stop_and_resume.amended_source(
        row, budget=["rungs.dft=7", "wall_minutes=90", "core_seconds=1e4"], goal_count=3, workers=4
    )
    assert "# what we are after" in source
    changes = amend(ledger, row, source, tmp_path)
    assert set(changes) == {
        "goal.count: null -> 3",
        "budget.rungs.dft: 2 -> 7",
        "budget.wall_minutes: nothing -> 90.0",
        "budget.core_seconds: nothing -> 10000.0",
        "workers: 2 -> 4",
    }
    with ledger.read() as connection:
        found = campaigns.get(connection, row.name)
        log = connection.execute(sa.select(t.campaign_amendment)).mappings().all()
        said = directives.directives_since(connection, row.id, 0)
    assert found.spec["budget"] == {"core_seconds": 1e4, "wall_minutes": 90.0, "rungs": {"dft": 7}}
    assert {(one["path"], one["who"], one["why"]) for one in log} == {
        (path, "ann", "two more days") for path in ("budget", "goal", "workers")
    }
    assert [(d.verb, d.payload["changes"]) for d in said] == [(Verb.AMEND, changes)]
    assert open_stored(ledger, row.name, "bob").built.spec.goal.count == 3
    again = amend_pause_stop_and_resume.amended_source(found, budget=["wall_minutes=none"])
    assert amend_pause_stop_and_resume.differences(found, again, "x", tmp_path)[1] == [
        "budget.wall_minutes: 90.0 -> nothing"
    ]


def test_what_would_be_another_campaign_is_refused(ledger: Ledger, row: CampaignRow, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"another campaign than \"small\":\n.*homo_lumo_gap"):
        amend_pause_stop_and_resume.differences(row, row.source.replace("[3.0, 9.0]", "[3.0, 8.0]"), "x.yaml", tmp_path)
    with pytest.raises(UsageError, match=r'x\.yaml is the campaign "other", not "small"'):
        amend_pause_stop_and_resume.differences(
            row, row.source.replace("campaign: small", "campaign: other"), "x.yaml", tmp_path
        )
    with pytest.raises(SpecError, match=r"x.yaml:\d+:\d+: budget.rungs.dft"):
        amend_pause_stop_and_resume.differences(row, row.source.replace("dft: 2", "dft: -2"), "x.yaml", tmp_path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("walls=3", 'unknown key "walls"'),
        ("wall_minuts=3", 'did you mean "wall_minutes"'),
        ("rungs.dtf=3", 'unknown key "rungs.dtf"; did you mean "rungs.dft"'),
        ("wall_minutes", "write KEY=NUMBER"),
        ("wall_minutes=soon", '"soon" is no number'),
    ],
)
def test_a_budget_that_is_none_is_named(row: CampaignRow, text: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        amend_pause_stop_and_resume.amended_source(row, budget=[text])
