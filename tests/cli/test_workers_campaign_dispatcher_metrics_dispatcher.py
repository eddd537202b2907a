"""`sciagent run --submit` and `dispatcher`, as they are typed."""

from __future__ import annotations

from pathlib import Path

from tests.support.typed import data, refused, told


def test_a_submitted_campaign_waits_for_a_dispatcher_until_it_is_stopped(folder: Path) -> None:
    said = told("run", "small", "--submit", "--who", "ann")
    assert "nothing drives it yet" in said and "sciagent serve" in said and "sciagent dispatcher" in said
    assert data("run", "small", "--submit") == {"campaign": "small", "dispatchers": 0, "driven": False}
    assert "nothing will take up small now" in told("stop", "small")
    assert "a dispatcher runs no jobs itself" in refused("dispatcher", "--executor", "local")
