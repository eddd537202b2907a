from __future__ import annotations

import pytest

from tests.support.guarded import guards_of


@pytest.mark.parametrize(
    ("name", "hash_", "label"),
    [
        ("tiny", "0123456789abcdef", "tiny@01234567"),
        ("tiny@0", "0123456789abcdef", "tiny@0"),  # the name says which weights
        ("unknown", None, "unknown"),
    ],
)
def test_a_policy_is_shown_with_the_beginning_of_its_hash(name: str, hash_: str | None, label: str) -> None:
    assert guards_of(name, hash=hash_).label == label
