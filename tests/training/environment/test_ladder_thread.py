"""The thread behind an environment proposes the seeds, runs the ladder, and leaves the campaign as a driver does."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from sciagent.errors import CampaignError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.training.environment.environment import Environment
from tests.training.environment.served import FAST

Serve = Callable[..., Environment]
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def state(ledger: Ledger) -> tuple[str, str | None]:
    with ledger.read() as connection:
        row = campaigns.get(connection, "rolled")
        return str(row.state), row.stop_reason


def test_the_seeds_are_known_before_the_first_episode_and_once(serve: Serve, ledger: Ledger) -> None:
    for _ in range(2):
        with serve() as environment:
            seen = str(environment.open().messages[1]["content"])
            assert "#1 CCO" in seen and "#2 CO" in seen
        assert state(ledger) == ("interrupted", "the environment was closed")


def test_a_second_driver_is_refused_at_the_start(serve: Serve) -> None:
    first, second = serve(), serve()
    with first, pytest.raises(CampaignError, match="is being driven by"):
        second.__enter__()


def test_an_environment_goes_on_after_the_campaign_has_reached_its_goal(serve: Serve, ledger: Ledger) -> None:
    reached = FAST.replace("goal: {kind: graded}", "goal: {kind: hits, count: 1}")
    with serve(reached.replace("[1, 2]", "[0.3, 2]")) as environment:
        episode = environment.open()
        episode.call("propose", {"smiles": "CCCO"})
        until = time.monotonic() + 10
        while state(ledger)[0] != "finished" and time.monotonic() < until:
            time.sleep(0.05)
        assert state(ledger)[0] == "finished"
        assert episode.call("propose", {"smiles": "CCCCO"}).reward == pytest.approx(1 / 2, abs=1e-3)
        assert episode.end(wait=30).outcome == pytest.approx(1.5, abs=1e-3)
    assert state(ledger) == ("finished", "2 hits; 1 was asked for")
