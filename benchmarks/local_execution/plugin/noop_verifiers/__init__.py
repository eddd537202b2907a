"""Two verifiers that compute nothing: what is left is the price of running a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.properties_and_levels import HEAVY_ATOMS
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

LEVEL = Level("nothing")


class Salt(Settings):
    """salt: any number; another one is another verification, so that nothing is reused."""

    salt: int = 0


class Nothing(Verifier[Candidate]):
    """Reports a number it was given for free (the length of the notation), and so takes no time of its own."""

    Settings = Salt

    name = "noop.nothing"
    version = "1"
    tier = Tier.SIMULATION

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(LEVEL, HEAVY_ATOMS)

    def cost(self, candidate: Candidate) -> Cost:
        return Cost(core_seconds=0.002)

    def verify(self, batch: Sequence[Candidate], context: Context) -> Iterator[Finding]:
        for candidate in batch:
            measured = (Measured(HEAVY_ATOMS.name, LEVEL, Quantity(float(len(candidate.text)), "1")),)
            yield Finding(candidate.key, Outcome.OK, measured)


class NothingWithRdkit(Nothing):
    """The same, forked from a process that has RDKit in memory, as a verifier that looks at molecules does."""

    name = "noop.rdkit"
    preload = ("rdkit.Chem", "rdkit.Chem.rdMolDescriptors", "rdkit.Chem.rdinchi")


class NothingTogether(Nothing):
    """The same, in calls of up to 32 candidates: they share a process, and the driver writes them at once."""

    name = "noop.together"
    together = 32
