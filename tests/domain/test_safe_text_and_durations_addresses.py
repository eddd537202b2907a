"""Which addresses of servers can be asked."""

from __future__ import annotations

import pytest

from sciagent.domain.safe_text_and_durations import address_fault


@pytest.mark.parametrize("address", ["http://localhost:8000/v1", "https://a.b/x?y=%20&z=1", "http://[::1]:80/"])
def test_an_address_that_can_be_asked_has_no_fault(address: str) -> None:
    assert address_fault(address) == ""


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("ftp://a", "begin with"),
        ("http://a\x01b/v1", r"the character '\x01'"),
        ("http://a b", "the character ' '"),
        ("http://a/\ud800", r"the character '\ud800'"),
        ("http://[::1/v1", "Invalid IPv6"),
        ("http://a:99999/v1", "Port out of range"),
        ("http:///v1", "names no server"),
    ],
)
def test_the_fault_of_an_address_is_named(address: str, why: str) -> None:
    assert why in address_fault(address)
