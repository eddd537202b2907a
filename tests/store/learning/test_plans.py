"""Rewards and data sets read the ledger by indexes, however many episodes it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles, reward_inputs, rollout_groups, versioned_rewards
from sciagent.store.views.report_episodes_and_proposers import episode_proposals
from tests.support import rows
from tests.support.query_plans import plan_of, scans

PAID = [Computation("toy", "1", rows.SETTINGS)]
READS: dict[str, Callable[[Any, int], object]] = {
    "episodes of a campaign": lambda c, i: reward_inputs.episodes(c, i, 10),
    "some episodes": lambda c, i: reward_inputs.episodes(c, i, 10, only=[1, 2]),
    "an episode by its number": lambda c, i: reward_inputs.by_number(c, i, 1),
    "turns with their proposals": lambda c, i: reward_inputs.turns_of(c, [1, 2], 10),
    "what candidates cost": lambda c, i: reward_inputs.costs_of(c, i, PAID, [1, 2], 10),
    "what imported values cost": lambda c, i: reward_inputs.costs_of(c, i, PAID, [1, 2], 10, [("gap", "measured")]),
    "what evidence cost": lambda c, i: reward_inputs.shares(c, [1, 2]),
    "what computations cost": lambda c, i: reward_inputs.of_computations(c, PAID, [1, 2], 10),
    "the last group": lambda c, i: rollout_groups.last_number(c, i),
    "open groups": lambda c, i: rollout_groups.of_campaign(c, i, "open"),
    "siblings": lambda c, i: rollout_groups.siblings(c, 1),
    "counts of groups": lambda c, i: rollout_groups.counts(c, [1, 2]),
    "policies of episodes": lambda c, i: policies_and_roles.of_episodes(c, [1, 2]),
    "the last version of a description": lambda c, i: versioned_rewards.last(c, i, "a" * 64),
    "the last version of a campaign": lambda c, i: versioned_rewards.last_of_campaign(c, i, 10),
    "rewards of a version": lambda c, i: versioned_rewards.of_version(c, 1),
    "rewards of an episode": lambda c, i: versioned_rewards.of_version(c, 1, [1]),
    "places of turns": lambda c, i: versioned_rewards.places(c, i),
    "turns of an episode": lambda c, i: proposer_trajectories.turns(c, 1),
    "proposals of an episode": lambda c, i: list(episode_proposals(c, 1)),
}


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", READS)
def test_nothing_is_scanned(ledger: Ledger, name: str) -> None:
    with ledger.begin() as connection:
        rows.campaign(connection)
    plan = plan_of(ledger, lambda connection: READS[name](connection, 1))
    assert scans(plan) == [], plan
