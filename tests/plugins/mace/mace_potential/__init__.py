"""MACE as a potential: what a package for `sciagent.potentials` has to say. It imports mace only to load a model.

Source: Batatia et al., NeurIPS 2022, arXiv 2206.07697.
"""

from __future__ import annotations

from pathlib import Path

from sciagent_simulators.potentials.ase_potential import AsePotential
from sciagent_simulators.potentials.potential_base_and_registry import EnergyScale, Potential, PotentialFactory
from sciagent_simulators.potentials.relaxed_phases_and_hull import MPTRJ

SCALE = EnergyScale("MACE", "PBE+U")


def make(weights: Path | None, device: str) -> Potential:
    from mace.calculators import MACECalculator

    calculator = MACECalculator(model_paths=str(weights), device=device, default_dtype="float64")
    return AsePotential(calculator, SCALE)


MACE = PotentialFactory("mace", SCALE, MPTRJ, make, 2e-3, "mace", ships_weights=False, environment="mace")
