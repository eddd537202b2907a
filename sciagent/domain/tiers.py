"""The four tiers of the ladder, cheapest first."""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    FAST = "fast"
    SIMULATION = "simulation"
    HIGH_FIDELITY = "high_fidelity"
    WORLD = "world"

    @property
    def order(self) -> int:
        return list(Tier).index(self)
