"""What an operator asks of the whole ledger."""

from __future__ import annotations

import pytest

from sciagent.store.database.ledger import Ledger
from sciagent.store.views import queues_campaigns_and_recent_failures
from tests.support.busy import busy

ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@ON_SQLITE
def test_rates_and_failures_are_of_the_newest_attempts_only(ledger: Ledger) -> None:
    busy(ledger)
    with ledger.read() as connection:
        whole, few = (
            queues_campaigns_and_recent_failures.latest_results(connection),
            queues_campaigns_and_recent_failures.latest_results(connection, window=4),
        )
    assert whole.per_minute == {1: 1.0, 2: 1.0} and len(whole.failures) == 2
    assert few.failures == []
