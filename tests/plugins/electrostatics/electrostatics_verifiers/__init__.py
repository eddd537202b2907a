"""The electrostatic energy of a crystal of point charges: real, and computed in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pymatgen.analysis.ewald import EwaldSummation
from pymatgen.core import Element

from sciagent.chemistry.crystal import Crystal
from sciagent.domain.properties_and_levels import Property
from sciagent.verification.verifier_contract import (
    ArtifactFile,
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    PropertyAtLevel,
    Quantity,
    Reason,
    Refusal,
    Settings,
    Tier,
    Verifier,
    at,
)

ENERGY = Property("electrostatic_energy", ("eV",), "Electrostatic energy of the ions for each atom.")
PROPERTIES = (ENERGY,)


class EwaldSettings(Settings):
    pause: float = 0.0
    """Seconds that each verification sleeps, so that a test can interrupt it."""


class EwaldEnergy(Verifier[Crystal]):
    """The energy of point charges on the sites, by Ewald's sum; each element has its commonest oxidation state."""

    name = "ewald.energy"
    version = "1"
    tier = Tier.SIMULATION
    kind = "crystal"
    engines = ("pymatgen-core",)
    Settings = EwaldSettings

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level("Ewald, formal charges"), ENERGY)

    def accepts(self, candidate: Crystal) -> Refusal | None:
        total = sum(_charge(symbol) for symbol in candidate.species)
        return None if total == 0 else Refusal(Reason.CHARGE, f"the charges sum to {total:+d}")

    def cost(self, candidate: Crystal) -> Cost:
        return Cost(core_seconds=0.05)

    def verify(self, batch: Sequence[Crystal], context: Context) -> Iterator[Finding]:
        import time

        for crystal in batch:
            time.sleep(self.settings.pause)
            charged = crystal.structure.copy()
            charged.add_oxidation_state_by_site([_charge(symbol) for symbol in crystal.species])
            energy = float(EwaldSummation(charged).total_energy) / len(crystal.species)
            (context.scratch / "cell.cif").write_text(crystal.structure.to(fmt="cif"), encoding="utf-8")
            measured = Measured("electrostatic_energy", self.measures[0].level, Quantity(energy, "eV", 1e-6))
            yield Finding(
                crystal.key,
                Outcome.OK,
                (measured,),
                artifacts=(ArtifactFile("cell.cif", str(context.scratch / "cell.cif"), "chemical/x-cif"),),
            )


def _charge(symbol: str) -> int:
    """Returns the lowest common oxidation state of a non-metal, and the lowest positive one of any other element."""
    states = Element(symbol).common_oxidation_states or (0,)
    return int(min(states) if Element(symbol).X >= 2.5 else min(state for state in states if state >= 0))
