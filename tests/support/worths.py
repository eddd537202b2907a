"""Columns of a worth, as tests give them to candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sciagent.domain.worth import HIT, MISS, NO_COLUMNS, Basis, Worth


def worth(expected: float, hit: bool | None = None) -> Worth:
    """hit: whether it is one; None: that is open, with even chances."""
    chance = 50 if hit is None else HIT if hit else MISS
    return Worth(chance / 100, chance, expected, margin=0.0, basis=Basis.LINE if hit is None else Basis.ANSWERED)


def worth_columns(expected: float | None, hit: bool | None = None) -> Mapping[str, Any]:
    return NO_COLUMNS if expected is None else worth(expected, hit).columns
