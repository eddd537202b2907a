"""Two ways to count the rungs of a ladder, which the type checker keeps apart."""

from __future__ import annotations

from typing import NewType

Position = NewType("Position", int)
"""Place of a rung on the whole ladder of a campaign, from 0."""

PaidIndex = NewType("PaidIndex", int)
"""Place of a rung among those that are bought, up to the terminal rung: a column of a scheduler's arrays."""
