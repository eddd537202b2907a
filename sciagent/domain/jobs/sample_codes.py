"""Codes of samples: ten signs that people do not mistake for each other, and one that shows a misread sign.

The signs are Douglas Crockford's base 32, and the check sign is his: the number modulo 37.
Source: https://www.crockford.com/base32.html
"""

from __future__ import annotations

import secrets

from sciagent.errors import UsageError

SIGNS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
CHECKS = SIGNS + "*~$=U"
LENGTH = 10  # 50 random bits: of 10^6 codes two are alike with a chance of 4 in 10^4, and the ledger refuses the second
READ_AS = str.maketrans("OIL", "011", " -")


def new_code() -> str:
    """Returns a random code whose check sign is on the first page of a tablet's keyboard, which `~` is not."""
    while True:
        code = with_check("".join(secrets.choice(SIGNS) for _ in range(LENGTH)))
        if code.isalnum():
            return code


def with_check(signs: str) -> str:
    """Returns signs with their check sign."""
    return signs + CHECKS[_number(signs) % 37]


def read_code(text: str) -> str:
    """Returns the code in its usual form. Small letters, spaces, hyphens, and O, I and L are understood.

    Raises UsageError for a text that is no code, or whose check sign does not fit."""
    code = text.strip().upper().translate(READ_AS)
    if len(code) != LENGTH + 1 or any(sign not in SIGNS for sign in code[:-1]) or code[-1] not in CHECKS:
        raise UsageError(f'"{text[:40]}" is no code of a sample: it has {LENGTH} signs and a check sign')
    if with_check(code[:-1]) != code:
        raise UsageError(f'"{text[:40]}" was misread: its check sign does not fit; scan it again')
    return code


def _number(signs: str) -> int:
    number = 0
    for sign in signs:
        number = number * 32 + SIGNS.index(sign)
    return number
