"""A verifier of crystals in a process whose spglib finds other space groups than that of the driver."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from misbehaving_verifiers import Base
from sciagent.verification.verifier_contract import Context, Cost, Finding, Tier


class OtherSpglib(Base):
    """Reports the identity that came with the crystal, and the one that this spglib would give it."""

    name = "bad.spglib"
    tier = Tier.SIMULATION
    kind = "crystal"

    @classmethod
    def warm(cls) -> None:
        from pymatgen.symmetry import analyzer

        class OldAnalyzer(analyzer.SpacegroupAnalyzer):
            def get_symmetry_dataset(self) -> Any:
                found = super().get_symmetry_dataset()
                kept = {
                    "site_symmetry_symbols": found.site_symmetry_symbols,
                    "equivalent_atoms": found.equivalent_atoms,
                }
                return SimpleNamespace(number=1, international="P1", **kept)

        analyzer.SpacegroupAnalyzer = OldAnalyzer  # type: ignore[misc]

    def cost(self, candidate: Any) -> Cost:
        return Cost(core_seconds=0.1)

    def one(self, candidate: Any, context: Context) -> Finding:
        from sciagent.chemistry.crystal import crystal_from_structure

        here = crystal_from_structure(candidate.structure).identity
        return self.good(candidate, diagnostics={"identity": candidate.identity, "computed_here": here})
