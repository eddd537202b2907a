"""What calculations on single molecules share: the loop, common refusals, and values with their spread."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence

from sciagent.chemistry.molecule import Molecule
from sciagent.verification.contract import (
    ArtifactFile,
    Context,
    Finding,
    Level,
    Measured,
    Property,
    Quantity,
    Reason,
    Refusal,
    SimulatorError,
    Verifier,
)
from sciagent_simulators.geometry import Geometry, failure, spin_fault


class MoleculeCalculation(Verifier[Molecule]):
    """A verifier that calculates each molecule by itself; an engine's failure becomes a finding with its reason."""

    @abstractmethod
    def calculate(self, molecule: Molecule, context: Context) -> Finding:
        """Raises SimulatorError."""

    def verify(self, batch: Sequence[Molecule], context: Context) -> Iterator[Finding]:
        for molecule in batch:
            try:
                yield self.calculate(molecule, context)
            except SimulatorError as error:
                yield self.failed(molecule, error)


def refusal(molecule: Molecule, heaviest: int, max_atoms: int) -> Refusal | None:
    """What any molecular orbital calculation refuses: elements, size, and a spin that does not fit the electrons."""
    if molecule.n_atoms > max_atoms:
        return Refusal(Reason.TOO_LARGE, f"{molecule.n_atoms} atoms; the limit is {max_atoms}")
    numbers = [atom.GetAtomicNum() for atom in molecule.mol.GetAtoms()]
    hydrogens = sum(atom.GetTotalNumHs() for atom in molecule.mol.GetAtoms())
    if not 0 < min(numbers) <= max(numbers) <= heaviest:
        return Refusal(
            Reason.ELEMENT, f"atomic numbers {min(numbers)} to {max(numbers)}; the method has 1 to {heaviest}"
        )
    fault = spin_fault(sum(numbers) + hydrogens - molecule.charge, molecule.multiplicity)
    return Refusal(Reason.MULTIPLICITY, fault) if fault else None


def measured(
    molecule: Molecule,
    level: Level,
    values: dict[Property, float | None],
    rigid: dict[Property, float],
    flexible: dict[Property, float],
    further: dict[Property, float] | None = None,
) -> tuple[Measured, ...]:
    """Values in canonical units with the uncertainty of the molecule's class; None is left out.

    further: standard uncertainties of single values, added in quadrature.
    Raises SimulatorError implausible (implausible_value) for a value outside the property's bounds.
    """
    from rdkit.Chem.rdMolDescriptors import CalcNumRotatableBonds

    spread = flexible if CalcNumRotatableBonds(molecule.mol) else rigid
    measured_values = []
    for prop, value in values.items():
        if value is None:
            continue
        low, high = prop.low, prop.high
        if not (float("-inf") if low is None else low) <= value <= (float("inf") if high is None else high):
            raise failure(
                Reason.IMPLAUSIBLE_VALUE, f"{prop.name} = {value:.4g} {prop.unit}; plausible is {low} to {high}"
            )
        uncertainty = math.hypot(spread[prop], (further or {}).get(prop, 0.0))
        measured_values.append(Measured(prop.name, level, Quantity(value, prop.unit, uncertainty)))
    return tuple(measured_values)


def geometry_artifact(geometry: Geometry, molecule: Molecule, context: Context, what: str = "") -> ArtifactFile:
    """The geometry as XYZ in the scratch folder. what: which of several, such as `cation`."""
    name = f"{molecule.key[:16]}{'-' + what if what else ''}.xyz"
    return ArtifactFile(name, str(geometry.write_xyz(context.scratch / name, molecule.smiles)), "chemical/x-xyz")
