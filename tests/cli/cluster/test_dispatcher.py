"""`sciagent submit` and `dispatcher`, as they are typed."""

from __future__ import annotations

from pathlib import Path

from tests.support.typed import data, refused, told


def test_a_submitted_campaign_waits_for_a_dispatcher_until_it_is_stopped(folder: Path) -> None:
    assert "no dispatcher is at work on this ledger" in told("submit", "small", "--who", "ann")
    assert data("submit", "small") == {"campaign": "small", "dispatchers": 0, "driven": False}
    assert "no dispatcher will take up small now" in told("stop", "small")
    assert "a dispatcher runs no jobs itself" in refused("dispatcher", "--executor", "local")
