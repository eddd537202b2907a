"""Two integer types for the place of a rung, so that the type checker finds confusions."""

from __future__ import annotations

from typing import NewType

Position = NewType("Position", int)
"""Position of a rung on the whole ladder of a campaign, from 0."""

PaidIndex = NewType("PaidIndex", int)
"""Index of a rung among the paid rungs up to the terminal rung, from 0: a column of a scheduler's arrays."""
