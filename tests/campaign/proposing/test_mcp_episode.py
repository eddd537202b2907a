"""The episode of a client over MCP, without the wire."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.proposing.briefing_and_workbench import AgentWorkbench
from sciagent.campaign.proposing.mcp_episode import McpEpisode
from sciagent.domain.proposer_interfaces import ProposalIn, ProposalOut
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from tests.campaign.proposing.opened import TEXT, built

__all__ = ["built"]
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def test_a_client_is_told_what_is_left_and_proposes_no_more_than_that(built: Built) -> None:
    with McpEpisode(built, "client") as episode:
        assert "Left to spend: core_seconds: 50 s; proposals: 9." in episode.instructions
        for n in range(1, 10):
            assert episode.call("propose", {"smiles": "C" * n + "O"}).ok
        assert "proposals 0" in episode.call("budget", {}).text
        refused = episode.call("propose", {"smiles": "CCN"})
    assert not refused.ok and "all proposals of the budget are made" in refused.text


def test_proposals_that_others_made_meanwhile_are_counted_before_any_is_written(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is asked when one proposal is left, and another client makes it before the turn is written."""
    with McpEpisode(built, "first") as first, McpEpisode(built, "second") as second:
        for n in range(1, 9):
            assert first.call("propose", {"smiles": "C" * n + "O"}).ok
        propose = AgentWorkbench.propose

        def late(bench: AgentWorkbench, proposals: Sequence[ProposalIn]) -> list[ProposalOut]:
            monkeypatch.setattr(AgentWorkbench, "propose", propose)
            assert first.call("propose", {"smiles": "CCCCCCCCCO"}).ok
            return propose(bench, proposals)

        monkeypatch.setattr(AgentWorkbench, "propose", late)
        refused = second.call("propose", {"smiles": "CCN"})
    assert not refused.ok and "all proposals of the budget are made by others meanwhile" in refused.text
    with built.ledger.read() as connection:
        assert campaign_counts_and_remarks.proposals(connection, built.row.id) == 9


def test_a_driver_counts_what_a_client_proposes(ledger: Ledger, tmp_path: Path) -> None:
    """The driver makes four of nine proposals, then a client makes three, then the driver makes the last two."""
    alcohols = ["C" * n + "N" for n in range(1, 21)]
    (tmp_path / "molecules.csv").write_text("smiles\n" + "\n".join(alcohols) + "\n")
    text = TEXT.replace("file: molecules.csv", "file: molecules.csv, batch: 4")
    built = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    with Driver(built) as driver:
        driver.step()
        with ledger.read() as connection:
            assert campaign_counts_and_remarks.proposals(connection, built.row.id) == 4
        with McpEpisode(built, "client") as episode:
            for n in range(1, 4):
                assert episode.call("propose", {"smiles": "C" * n + "O"}).ok
        while driver.step() is None:
            pass
    with ledger.read() as connection:
        assert campaign_counts_and_remarks.proposals(connection, built.row.id) == 9
        assert "9 of 9 proposals made" in (campaigns.get(connection, "bench").stop_reason or "")


def test_an_unknown_property_is_not_predicted(built: Built) -> None:
    with McpEpisode(built, "client") as episode:
        wrong = {"property": "logb", "value": 1.0, "error": 0.1}
        refused = episode.call("propose", {"smiles": "CCO", "predictions": [wrong]})
    assert not refused.ok and "'logb' is no property" in refused.text and "logp" in refused.text
