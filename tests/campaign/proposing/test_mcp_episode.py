"""The episode of a client over MCP, without the wire."""

from __future__ import annotations

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.proposing.mcp_episode import McpEpisode
from tests.campaign.proposing.opened import built

__all__ = ["built"]
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def test_a_client_is_told_what_is_left_and_proposes_no_more_than_that(built: Built) -> None:
    with McpEpisode(built, "client") as episode:
        assert "Left to spend: core_seconds: 50 s; proposals: 9." in episode.instructions
        for n in range(1, 10):
            assert episode.call("propose", {"smiles": "C" * n + "O"}).ok
        assert "proposals 0" in episode.call("budget", {}).text
        refused = episode.call("propose", {"smiles": "CCN"})
    assert not refused.ok and "all 9 proposals are made" in refused.text


def test_an_unknown_property_is_not_predicted(built: Built) -> None:
    with McpEpisode(built, "client") as episode:
        wrong = {"property": "logb", "value": 1.0, "error": 0.1}
        refused = episode.call("propose", {"smiles": "CCO", "predictions": [wrong]})
    assert not refused.ok and "'logb' is no property" in refused.text and "logp" in refused.text
