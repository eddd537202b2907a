"""The place of a rung in a ladder: two integer types, so that the type checker finds confusions, and the four tiers."""

from __future__ import annotations

from enum import StrEnum
from typing import NewType

Position = NewType("Position", int)
"""Position of a rung on the whole ladder of a campaign, from 0."""

PaidIndex = NewType("PaidIndex", int)
"""Index of a rung among the paid rungs up to the terminal rung, from 0: a column of a scheduler's arrays."""


class Tier(StrEnum):
    """Kind of rung by cost, the cheapest first."""

    FAST = "fast"
    SIMULATION = "simulation"
    HIGH_FIDELITY = "high_fidelity"
    WORLD = "world"

    @property
    def order(self) -> int:
        """Place among the tiers, from 0 for the cheapest."""
        return list(Tier).index(self)
