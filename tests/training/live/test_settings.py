"""The wishes of a person for a live run: which are refused, and with which words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sciagent.errors import UsageError
from sciagent.training.live.settings import LiveWish, TaskShare

WISH = LiveWish((TaskShare(Path("a.yaml")),), "tiny", Path("run"), "new", Path("rewards.yaml"))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tasks": ()}, "needs a campaign file"),
        ({"tasks": (TaskShare(Path("a.yaml"), float("inf")),)}, r"a\.yaml: the weight inf is not above 0"),
        ({"steps": 0}, "steps: 0 is below 1"),
        ({"siblings": 1}, "take 2 or more"),
        ({"ahead": 2}, "ahead: 2 is neither 0 nor 1"),
        ({"ahead": 1, "lag": 0}, "more than the 0 versions that lag allows"),
        ({"parts": 0}, "parts: 0 is below 1"),
        ({"training": "ppo"}, "ppo needs a value head"),
        ({"endpoint": "http://127.0.0.1:8000/v1"}, "train one with --lora RANK"),
        ({"ray_address": "10.0.0.1:6379"}, "say how many with --actors"),
    ],
)
def test_a_wish_that_cannot_be_fulfilled_is_refused(changed: dict[str, Any], said: str) -> None:
    WISH.check()
    with pytest.raises(UsageError, match=said):
        replace(WISH, **changed).check()


def test_further_groups_are_as_many_as_the_groups_unless_said() -> None:
    assert replace(WISH, groups=3).most_groups == 6
    assert replace(WISH, groups=3, further=1).most_groups == 4
