"""Trajectories: each number once, with turns that are written once and read back in order."""

from __future__ import annotations

from sciagent.store.campaign_state import trajectories
from sciagent.store.campaign_state.trajectories import NewTurn, SampledRow
from sciagent.store.database.ledger import Ledger
from tests.support import rows


def test_a_trajectory_goes_on_from_its_last_turn_until_it_ends(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign_id = rows.campaign(connection).id
        assert trajectories.last_number(connection, campaign_id) == -1
        opened = {"proposer": "alpha", "settings": {"turns": 4}, "seed": 7}
        first = trajectories.open_(connection, campaign_id, 0, **opened)
        assert trajectories.open_(connection, campaign_id, 0, **opened) == first, "it is opened once"
        second = trajectories.open_(connection, campaign_id, 3, **opened)
        assert trajectories.last_turn(connection, first) == (-1, {})
        for number in range(2):
            sampled = SampledRow({"content": "hello"}, output_ids=[1, 2]) if number else None
            turn = NewTurn(number, {"at": number}, [], [], {"llm_tokens": 5.0}, "model", sampled)
            trajectories.write_turn(connection, first, turn)
        assert trajectories.last_turn(connection, first) == (1, {"at": 1})
        assert [turn["output_ids"] for turn in trajectories.turns(connection, first)] == [None, [1, 2]]
        trajectories.end(connection, first, "the budget is spent")
        [running] = trajectories.running(connection, campaign_id)
        assert (running.id, running.number, running.seed, running.settings) == (second, 3, 7, {"turns": 4})
        assert trajectories.last_number(connection, campaign_id) == 3
        assert trajectories.proposals_by(connection, campaign_id) == {}
