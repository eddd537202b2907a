"""Defines `dipole` a second time, as a plain number, and measures it; and a verifier that does no such thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sciagent.chemistry.molecule import Molecule
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    Property,
    PropertyAtLevel,
    Quantity,
    Tier,
    Verifier,
    at,
)

DIPOLE = Property("dipole", ("1",), "a dipole moment without a unit")
CLASH_NUMBER = Property("clash_number", ("1",), "atoms and nothing else")
PROPERTIES = (DIPOLE, CLASH_NUMBER)
LEVEL = Level("counting")


class Number(Verifier[Molecule]):
    name = "clash.number"
    version = "1"
    tier = Tier.FAST
    prop = CLASH_NUMBER

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(LEVEL, self.prop)

    def cost(self, candidate: Molecule) -> Cost:
        return Cost(core_seconds=1e-4)

    def verify(self, batch: Sequence[Molecule], context: Context) -> Iterator[Finding]:
        for one in batch:
            value = Quantity(float(one.n_atoms), "1", uncertainty=0.0)
            yield Finding(one.key, Outcome.OK, (Measured(self.prop.name, LEVEL, value),))


class Dipole(Number):
    name = "clash.dipole"
    prop = DIPOLE
