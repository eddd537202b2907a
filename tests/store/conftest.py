"""A campaign of toys, for the tests of single tables."""

from __future__ import annotations

import pytest

from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from tests.support import rows


@pytest.fixture
def row(ledger: Ledger) -> CampaignRow:
    with ledger.begin() as connection:
        return rows.campaign(connection)
