"""Policies by name, and those that campaigns keep."""

from __future__ import annotations

import pytest

from sciagent.domain.policy_identity import IN_PROCESS, PolicyIdentity
from sciagent.errors import UnknownNameError
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles
from tests.support import rows


def test_a_name_without_its_hash_means_the_last_whole_weights(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        policies_and_roles.enter(connection, PolicyIdentity("a@1", IN_PROCESS, "1" * 64))
        last = policies_and_roles.enter(connection, PolicyIdentity("a@2", IN_PROCESS, "2" * 64))
        adapter = policies_and_roles.enter(connection, PolicyIdentity("a@3", IN_PROCESS, "1" * 64, "3" * 64))
        assert (
            policies_and_roles.find(connection, "a").id == last
            and policies_and_roles.find(connection, "a@3").id == adapter
        )
        with pytest.raises(UnknownNameError, match="known: a@1, a@2, a@3"):
            policies_and_roles.find(connection, "b")


def test_a_campaign_keeps_its_first_policy(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign = rows.campaign(connection)
        first, second = (policies_and_roles.enter(connection, PolicyIdentity(n, IN_PROCESS, n * 64)) for n in "12")
        assert policies_and_roles.pinned(connection, campaign.id, "") is None
        policies_and_roles.pin(connection, campaign.id, "", "production", first)
        policies_and_roles.pin(connection, campaign.id, "", "production", second)
        kept = policies_and_roles.pinned(connection, campaign.id, "")
        assert kept is not None and kept.id == first
        assert policies_and_roles.pinned(connection, campaign.id, "other") is None
