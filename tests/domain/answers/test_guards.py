from __future__ import annotations

import pytest

from sciagent.domain.answers.guards import PolicyDiversity, PolicyGuards


@pytest.mark.parametrize(
    ("name", "hash_", "label"),
    [
        ("tiny", "0123456789abcdef", "tiny@01234567"),
        ("tiny@0", "0123456789abcdef", "tiny@0"),  # the name says which weights
        ("unknown", None, "unknown"),
    ],
)
def test_a_policy_is_shown_with_the_beginning_of_its_hash(name: str, hash_: str | None, label: str) -> None:
    none = PolicyDiversity(scaffolds=None, distance=None, repeats=None, refused=None)
    policy = PolicyGuards(
        policy=name,
        hash=hash_,
        episodes=0,
        undecided=0,
        proposals=0,
        reward=None,
        control=None,
        promise=None,
        diversity=none,
        alarms=(),
    )
    assert policy.label == label
