"""Trajectories: each number once, with turns that are written once and read back in order."""

from __future__ import annotations

import sqlalchemy as sa

from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.campaign_state.proposer_trajectories import NewTurn, SampledRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from tests.support import rows


def test_a_trajectory_goes_on_from_its_last_turn_until_it_ends(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign_id = rows.campaign(connection).id
        assert proposer_trajectories.last_number(connection, campaign_id) == -1
        opened = {"proposer": "alpha", "settings": {"turns": 4}, "seed": 7}
        first = proposer_trajectories.open_(connection, campaign_id, 0, **opened)
        assert proposer_trajectories.open_(connection, campaign_id, 0, **opened) == first, "it is opened once"
        second = proposer_trajectories.open_(connection, campaign_id, 3, **opened)
        assert proposer_trajectories.last_turn(connection, first) == (-1, {})
        for number in range(2):
            sampled = SampledRow({"content": "hello"}, output_ids=[1, 2]) if number else None
            turn = NewTurn(number, {"at": number}, [], [], {"llm_tokens": 5.0}, "model", sampled)
            proposer_trajectories.write_turn(connection, first, turn, watermark=0)
        assert proposer_trajectories.last_turn(connection, first) == (1, {"at": 1})
        turns = proposer_trajectories.turns(connection, first)
        assert [turn["output_ids"] for turn in turns] == [None, [1, 2]]
        assert {turn["untrainable"] for turn in turns} == {proposer_trajectories.NOT_SAMPLED}
        proposer_trajectories.end(connection, first, "the budget is spent")
        [running] = proposer_trajectories.running_trajectories(connection, campaign_id)
        assert (running.id, running.number, running.seed, running.settings) == (second, 3, 7, {"turns": 4})
        assert proposer_trajectories.last_number(connection, campaign_id) == 3
        assert proposer_trajectories.proposals_by_proposer(connection, campaign_id) == {}


def test_a_turn_says_what_could_be_known_and_whether_it_may_be_trained(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign_id = rows.campaign(connection).id
        opened = {
            "proposer": "m",
            "settings": {},
            "seed": 7,
            "purpose": "rollout",
            "sibling": 3,
            "policy_version": "m@1",
        }
        id_ = proposer_trajectories.open_(connection, campaign_id, 0, **opened)
        asked = proposer_trajectories.asked_now(connection)
        evidence.next_watermark(connection, 5)  # evidence arrives while the model answers
        drawn = {"output_ids": [1], "logprobs": [-0.5], "behaviour": [-0.25]}
        for number, why in enumerate((None, "no reason")):
            new = NewTurn(number, {}, [], [], {}, "m@1", SampledRow(**drawn), asked=asked, untrainable=why)
            proposer_trajectories.write_turn(connection, id_, new, evidence.read_watermark(connection))
        first, second = proposer_trajectories.turns(connection, id_)
        assert (first["asked_watermark"], first["watermark"]) == (asked.watermark, asked.watermark + 5)
        assert first["behaviour"] == [-0.25] and first["asked_at"] == asked.at
        assert [turn["untrainable"] for turn in (first, second)] == [None, "no reason"]
        kept = connection.execute(sa.select(t.trajectory)).mappings().one()
        assert (kept["purpose"], kept["sibling"], kept["policy_version"]) == ("rollout", 3, "m@1")
