"""The verifier `mlff.elastic`: the bulk modulus of a relaxed crystal from its equation of state by a force field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.layers_and_vacuum import soft_vectors
from sciagent.domain.properties_and_levels import BULK_MODULUS, VOLUME_PER_ATOM
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import Context, Cost, Finding, PropertyAtLevel, at
from sciagent_simulators.potentials.potential_base_and_registry import Potential
from sciagent_simulators.potentials.relax_and_equation_of_state import STRAINS, Relaxed, StateFit, equations_of_state
from sciagent_verifiers.simulation.force_field_base import ForceField, ForceFieldSettings, structure_of

USUAL_DERIVATIVES = (2.0, 8.0)
"""Range of the derivative of the bulk modulus by pressure in which nearly all solids lie."""
STEPS_AT_A_VOLUME = 5  # of a relaxation at one of the volumes, in the estimate of the cost


def remark_on(curve: StateFit, is_soft: bool = False) -> str:
    """Returns what makes a fit doubtful, or an empty text. is_soft: whether no bonds run along a vector of the cell."""
    if is_soft:
        return "no bonds run along a vector of the cell, whose shape is kept: the modulus is an upper bound"
    low, high = USUAL_DERIVATIVES
    if low <= curve.derivative <= high:
        return ""
    return (
        f"the derivative of the bulk modulus by pressure is {curve.derivative:.1f}; usual is {low:g} to {high:g}, so "
        "that the energies hardly follow an equation of state"
    )


class MlffElastic(ForceField):
    """Bulk modulus and equilibrium volume by a machine-learnt force field, many crystals in one call.

    Cell and positions are relaxed first. Then the cell is scaled to seven volumes within 6 %, positions are relaxed at
    each, and the Birch-Murnaghan equation is fitted. The shape of the cell does not adapt to pressure, so for
    layered crystals the modulus is an upper bound. These force fields are soft: for silicon CHGNet gives 84 GPa where
    its functional gives 88.5. Slabs, chains and molecules with vacuum around them are refused.

    The uncertainty (k = 1) of the modulus is repeatability over the starting structure
    (benchmarks/crystals/relaxation_repeatability.json) and half of the range of moduli over fits to fewer neighbouring
    volumes, in quadrature; that of the volume is repeatability. Of most solids the modulus grows by 2 to 8 GPa for a
    pressure of 1 GPa: a fit with another derivative has a remark.

    Source: Birch, Phys. Rev. 71, 809 (1947).
    """

    name = "mlff.elastic"
    version = "6"
    Settings = ForceFieldSettings
    spread = {BULK_MODULUS: 0.5, VOLUME_PER_ATOM: 0.01}

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, BULK_MODULUS, VOLUME_PER_ATOM)

    def cost(self, candidate: Crystal) -> Cost:
        relaxation = super().cost(candidate)
        seconds = self.seconds * len(STRAINS) * STEPS_AT_A_VOLUME * candidate.n_atoms
        return relaxation + Cost(core_seconds=seconds)

    def findings(
        self, batch: Sequence[Crystal], relaxed: Sequence[Relaxed], potential: Potential, context: Context
    ) -> Sequence[Finding]:
        fitted_indices = [index for index, relaxation in enumerate(relaxed) if relaxation.fault is None]
        cells = [relaxed[index].atoms for index in fitted_indices]
        fits = equations_of_state(potential, cells, fmax=self.settings.fmax, steps=self.settings.steps)
        fit_by_index = dict(zip(fitted_indices, fits, strict=True))
        findings = []
        for index, (crystal, relaxation) in enumerate(zip(batch, relaxed, strict=True)):
            fit = fit_by_index.get(index)
            try:
                findings.append(self._finding(crystal, self.checked(relaxation), fit, context))
            except SimulatorError as error:
                findings.append(self.failed(crystal, error))
        return findings

    def _finding(
        self, crystal: Crystal, relaxation: Relaxed, curve: StateFit | SimulatorError | None, context: Context
    ) -> Finding:
        if isinstance(curve, SimulatorError):  # the fit failed
            raise curve
        assert curve is not None, "a relaxed crystal has a curve"
        volume_per_atom = curve.volume / len(relaxation.atoms)
        values = {BULK_MODULUS: curve.bulk_modulus, VOLUME_PER_ATOM: volume_per_atom}
        modulus_error = math.hypot(self.spread[BULK_MODULUS], curve.modulus_spread)
        is_soft = any(soft_vectors(structure_of(relaxation)))
        relaxed_volume = float(relaxation.atoms.cell.volume) / len(relaxation.atoms)
        volume_error = None
        if not is_soft:  # the minimum of the curve beside the relaxed cell
            volume_error = math.hypot(self.spread[VOLUME_PER_ATOM], volume_per_atom - relaxed_volume)
        rows = self.measured(values, {}, spreads={BULK_MODULUS: modulus_error, VOLUME_PER_ATOM: volume_error})
        facts: dict[str, Any] = {
            "bulk_modulus_derivative": curve.derivative,
            "bulk_modulus_spread_over_ranges": curve.modulus_spread,
            "fit_residual_ev": curve.residual,
        }
        remark = remark_on(curve, is_soft)
        return self.calculated(crystal, context, rows, relaxation, facts, remark=remark)
