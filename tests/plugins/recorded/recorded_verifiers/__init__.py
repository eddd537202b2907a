"""A gap that is a fixed function of the structure, at a fixed price in money: no measured time enters a decision."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from sciagent.domain.properties_and_levels import HOMO_LUMO_GAP
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    PropertyAtLevel,
    Quantity,
    Settings,
    Tier,
    Verifier,
    at,
)


class FixedSettings(Settings):
    method: str
    """Name of the level; the error of a candidate is a fixed function of it, too."""
    error: float
    """Half the width of the error, in eV."""
    money: float
    """Price of one job, in EUR."""
    per_carbon: float = 0.0
    """More for each carbon atom, in EUR."""
    seconds_per_carbon: float = 0.0
    """Declared core-seconds for each carbon atom; a job takes none."""


class FixedGap(Verifier[Any]):
    name = "fixed.gap"
    version = "1"
    tier = Tier.SIMULATION
    Settings = FixedSettings

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level(self.settings.method), HOMO_LUMO_GAP)

    def cost(self, candidate: Any) -> Cost:
        carbons = candidate.text.count("C")
        money = self.settings.money + self.settings.per_carbon * carbons
        return Cost(core_seconds=self.settings.seconds_per_carbon * carbons, money=money)

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        for candidate in batch:
            gap = 5 + 3 * _fraction(candidate.text[-2:]) - 0.25 * candidate.text.count("C")
            gap += self.settings.error * (2 * _fraction(f"{self.settings.method} {candidate.key}") - 1)
            measured = Measured("homo_lumo_gap", self.measures[0].level, Quantity(gap, "eV"))
            yield Finding(candidate.key, Outcome.OK, (measured,))


def _fraction(text: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48
