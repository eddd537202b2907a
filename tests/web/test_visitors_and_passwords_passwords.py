"""Passwords: their hashes."""

from __future__ import annotations

import pytest

from sciagent.errors import UsageError
from sciagent.web import visitors_and_passwords

RIGHT = "a sentence of anna"


def test_a_password_is_kept_as_argon2id_with_a_salt() -> None:
    first, second = visitors_and_passwords.hashed(RIGHT, "anna"), visitors_and_passwords.hashed(RIGHT, "anna")
    assert first.startswith("$argon2id$v=19$m=65536,t=3,p=4$") and first != second and RIGHT not in first
    assert visitors_and_passwords.fit(first, RIGHT).is_right and not visitors_and_passwords.fit(first, "x").is_right
    assert not visitors_and_passwords.fit(None, "the time of a wrong login is that of a wrong password").is_right


@pytest.mark.parametrize("password", ["short", "x" * 257, "", "anna-anna-12"])
def test_a_weak_password_is_refused(password: str) -> None:
    with pytest.raises(UsageError):
        visitors_and_passwords.hashed(password, "anna")
