"""Files that a person did not write are refused at once."""

from __future__ import annotations

import time

import pytest

from sciagent.yaml.positions import MAX_FAULTS, read


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("campaign: a\n" + "#\n" * 490_000, None),
        ("a:\n" + "".join(f"  k{n}: x\n" for n in range(80_000)), "about 160002 entries; it may have 20000"),
        ("a: [" + "1," * 400_000 + "]\n", "about 400002 entries"),
    ],
    ids=["comments", "keys", "list"],
)
def test_a_megabyte_takes_seconds_at_most(text: str, message: str | None) -> None:
    began = time.monotonic()
    document = read(text)
    assert time.monotonic() - began < 10
    assert [message in fault.message for fault in document.faults] == ([True] if message else [])


def test_of_many_mistakes_the_first_are_kept() -> None:
    assert len(read("k: 1\n" * 500).faults) == MAX_FAULTS
