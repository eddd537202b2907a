"""The verifier `acme.beads`: the number of atoms, as the program Abacus counts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from abacus_verifiers.abacus import ABACUS, counted
from sciagent.chemistry.molecule import Molecule
from sciagent.domain.properties_and_levels import Property
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    PropertyAtLevel,
    Quantity,
    SimulatorError,
    Tier,
    Verifier,
    at,
)

BEADS = Property("acme_beads", ("1",), "Number of beads.")


class Beads(Verifier[Molecule]):
    """The number of beads that stand for the atoms of a molecule, by the program Abacus."""

    name = "acme.beads"
    version = "1"
    tier = Tier.SIMULATION
    programs = (ABACUS,)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level("Abacus"), BEADS)

    def cost(self, candidate: Molecule) -> Cost:
        return Cost(core_seconds=0.1)

    def verify(self, batch: Sequence[Molecule], context: Context) -> Iterator[Finding]:
        for molecule in batch:
            yield self._one(molecule, context)

    def _one(self, molecule: Molecule, context: Context) -> Finding:
        try:
            beads = counted(molecule.n_atoms, context.scratch / "abacus", context.threads)
        except SimulatorError as error:
            return self.failed(molecule, error)
        value = Quantity(float(beads), "1", uncertainty=0.0)
        return Finding(molecule.key, Outcome.OK, (Measured(BEADS.name, self.measures[0].level, value),))
