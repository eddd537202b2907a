"""The setting `geometry` of a calculation on a crystal: a force field that relaxes its cell and positions first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.errors import InvalidCandidateError, SimulatorError
from sciagent.verification.contract import Refusal
from sciagent_verifiers.simulation.force_field import ForceFieldSettings
from sciagent_verifiers.simulation.mlff_relax import MlffRelax

FMAX = 0.05
LOADING = 3.0  # core-seconds in which a model is loaded


class ForceFieldCell(ForceFieldSettings):
    """A relaxation of cell and positions, as by `mlff.relax`."""

    fmax: float = Field(FMAX, gt=0, le=1, description="Limit of the forces on atoms and cell, eV/angstrom.")

    @property
    def label(self) -> str:
        """The name of this geometry in levels, such as `CHGNet-0.3.0`; with the limit of forces if it is another."""
        return self.scale.model + ("" if self.fmax == FMAX else f", {self.fmax:g} eV/angstrom")

    @property
    def _relaxer(self) -> MlffRelax:
        """The verifier that refuses and loads in the same way."""
        return MlffRelax({**self.model_dump(exclude_defaults=True), "fmax": self.fmax, "known_phases": "none"})

    def refusal(self, crystal: Crystal) -> Refusal | None:
        """Returns why the force field does not apply to the crystal, or None."""
        return self._relaxer.accepts(crystal)

    def cost(self, crystal: Crystal) -> float:
        """Returns core-seconds."""
        return LOADING + self._relaxer.cost(crystal)["core_seconds"]

    def lacks(self) -> str | None:
        """Returns None if the force field is installed, else how to install it."""
        return self._relaxer.lacks()

    def attach(self) -> None:
        """Loads the model, so that jobs share it."""
        self._relaxer.attach()

    def relaxed(self, crystal: Crystal, threads: int) -> tuple[Crystal, Mapping[str, Any]]:
        """Returns the relaxed crystal, without the noise that hides its symmetry, and diagnostics.

        Raises SimulatorError as `mlff.relax` does: geometry_not_converged, collapsed, volume_changed and others.
        """
        import torch

        from sciagent_simulators.potentials import registry
        from sciagent_simulators.potentials.relaxing import relax

        torch.set_num_threads(threads)
        weights = self.weights.check() if self.weights else None
        potential = registry.load(self.model, weights, registry.available_device())
        found = self._relaxer.checked(relax(potential, [ase_atoms(crystal)], self.fmax, self.steps)[0])
        relaxed = _crystal(found.atoms)
        facts: dict[str, Any] = {
            "geometry_steps": found.steps,
            "geometry_fmax": round(found.fmax, 6),
            "volume_ratio": round(found.volume_ratio, 5),
            "space_group": relaxed.space_group,
        }
        if relaxed.space_group != crystal.space_group:
            facts["space_group_before"] = crystal.space_group
        return relaxed, facts


def ase_atoms(crystal: Crystal) -> Any:
    """Returns the primitive cell as ase.Atoms."""
    from ase import Atoms

    return Atoms(list(crystal.species), cell=crystal.lattice, scaled_positions=crystal.coordinates, pbc=True)


def _crystal(atoms: Any) -> Crystal:
    """Returns the crystal of ase.Atoms in its primitive cell. Raises SimulatorError implausible (collapsed)."""
    from pymatgen.core import Lattice, Structure

    structure = Structure(Lattice(atoms.cell.array), atoms.get_chemical_symbols(), atoms.get_scaled_positions(False))
    try:
        return crystal_from_structure(structure)
    except InvalidCandidateError as error:
        raise SimulatorError(Outcome.IMPLAUSIBLE, Reason.COLLAPSED, f"after the relaxation: {error}") from error
