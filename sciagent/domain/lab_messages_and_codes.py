"""Messages between a laboratory and sciagent: questions of verifiers that people carry out, the answers, and codes of
samples.

A code has ten signs that people do not mistake for each other, and a check sign, which shows that a sign was misread.
The signs are the digits of Douglas Crockford's base 32. The check sign is the number modulo 37, also after Crockford.
Source: https://www.crockford.com/base32.html
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import Property
from sciagent.domain.quantities import Quantity
from sciagent.errors import UsageError

QUEUE = "world"
"""The queue of jobs that people do. No worker takes from it."""
NOT_OBTAINED = (Reason.SYNTHESIS_FAILED, Reason.DECOMPOSED, Reason.INSOLUBLE, Reason.IMPURE)
"""Reasons for which a person could not measure a candidate that say something about the candidate."""
MEANING_WORDS = {"interval_95": "95 % interval", "tolerance": "tolerance"}
"""{meaning of ±, if it is not one standard deviation: words}."""


@dataclass(frozen=True)
class AskedQuantity:
    """A quantity that a person is to measure."""

    property: Property
    units: tuple[str, ...]
    """Units in which it may be entered; the first one is shown."""
    grades: tuple[str, ...] = ()
    """Words for the answer, from the worst to the best; empty for a number."""


@dataclass(frozen=True)
class LabForm:
    """The question about one candidate."""

    asks: tuple[AskedQuantity, ...]
    method: str
    """Name of the method of measurement."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """What is to be kept constant, such as `{temperature: 25 °C, solvent: water}`."""
    protocol: str = ""
    """Name of the file with the protocol; empty without one."""
    question: str = ""
    """The question, where a person judges instead of measuring."""

    def open_quantities(self, answer: LabAnswer) -> tuple[str, ...]:
        """Returns the names of the quantities for which an answer has neither a value, a grade, nor a reason."""
        if answer.not_obtained is not None:
            return ()
        names = [asked.property.name for asked in self.asks]
        answered = answer.values.keys() | answer.grades.keys() | answer.reasons.keys()
        return tuple(name for name in names if name not in answered)


@dataclass(frozen=True)
class LabAnswer:
    """The answer of a person about one candidate.

    Each quantity has a value, a grade, or a reason why there is none; or it is still open. `not_obtained` is the reason
    for all quantities together."""

    values: Mapping[str, Quantity] = field(default_factory=dict)
    """Values by property, each in one of the units that were asked for."""
    grades: Mapping[str, str] = field(default_factory=dict)
    """Grades by property, where a judgement was asked for."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """Reasons by property, each one of `NOT_OBTAINED`, for which a single quantity has no value."""
    not_obtained: Reason | None = None
    """One of `NOT_OBTAINED`, if no quantity has a value; None otherwise."""
    detail: str = ""
    """What the person adds in words."""


SIGNS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""The 32 signs of a code; the position of a sign is its value."""
CHECKS = SIGNS + "*~$=U"
"""The 37 check signs."""
# 50 random bits: of 10^6 codes two are alike with a chance of 4 in 10^4, and the ledger refuses the second
LENGTH = 10
# signs that are read as another one, and signs that are left out
READ_AS = str.maketrans("OIL", "011", " -")


def new_code() -> str:
    """Returns a random code. Its check sign is a letter or a digit, since `~` is hard to find on a tablet."""
    while True:
        code = with_check("".join(secrets.choice(SIGNS) for _ in range(LENGTH)))
        if code.isalnum():
            return code


def with_check(signs: str) -> str:
    """Returns signs with their check sign."""
    return signs + CHECKS[_number(signs) % len(CHECKS)]


def read_code(text: str) -> str:
    """Returns the code in its usual form. Small letters, spaces, hyphens, and O, I and L are understood.

    Raises UsageError for a text that is no code, or whose check sign does not fit."""
    code = text.strip().upper().translate(READ_AS)
    signs = code[:-1]
    check_sign = code[-1:]
    is_code = len(signs) == LENGTH and all(sign in SIGNS for sign in signs) and check_sign in CHECKS
    if not is_code:
        raise UsageError(f'"{text[:40]}" is no code of a sample: it has {LENGTH} signs and a check sign')
    if with_check(signs) != code:
        raise UsageError(f'"{text[:40]}" was misread: its check sign does not fit; scan it again')
    return code


def _number(signs: str) -> int:
    """Returns the number that the signs stand for in base 32."""
    number = 0
    for sign in signs:
        number = number * len(SIGNS) + SIGNS.index(sign)
    return number
