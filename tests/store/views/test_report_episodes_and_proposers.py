"""Episodes as the report reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.database.ledger import Ledger
from sciagent.store.views.report_episodes_and_proposers import (
    episode_count,
    episode_outcomes,
    episodes_behind_the_best,
    episodes_page,
    latest_episodes,
)
from tests.support.talked import Talker, talked


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Talker:
    return talked(ledger, tmp_path, episodes=4)


def test_an_episode_is_a_conversation_and_no_script(made: Talker) -> None:
    with made.ledger.begin() as connection:
        proposer_trajectories.open_(connection, made.row.id, 9, proposer="mcp", settings={"client": "desk"}, seed=1)
    with made.ledger.read() as connection:
        assert episode_count(connection, made.row) == 5
        assert [one.number for one in episodes_page(connection, made.row, -1, 3)] == [1, 2, 3]
        assert [one.number for one in episodes_page(connection, made.row, 3, 3)] == [4, 9]
        assert [one.number for one in latest_episodes(connection, made.row, 2)] == [9, 4]
        best = episodes_behind_the_best(connection, made.row, 3)
        first = {one.number: one.id for one in best}
        outcomes = episode_outcomes(connection, made.row, list(first.values()))
    assert outcomes[best[0].id].hits >= 1 and len({one.id for one in best}) == 3
    assert all((one.turns, one.new) == (2, 2) for one in outcomes.values())
