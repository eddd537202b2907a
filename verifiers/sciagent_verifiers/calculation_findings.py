"""Functions shared by the verifiers that compute molecules: refusals, measured values and files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence import ArtifactFile, Measured
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.quantities import Quantity
from sciagent.verification.contract import Context, Finding, Level, Property, Refusal
from sciagent_simulators.geometry import Geometry, failure, spin_fault


def refusal(molecule: Molecule, heaviest: int, max_atoms: int) -> Refusal | None:
    """Returns the refusal of a molecule by any molecular orbital calculation: its size, elements or spin."""
    if molecule.n_atoms > max_atoms:
        return Refusal(Reason.TOO_LARGE, f"{molecule.n_atoms} atoms; the limit is {max_atoms}")
    numbers = [atom.GetAtomicNum() for atom in molecule.mol.GetAtoms()]
    hydrogens = sum(atom.GetTotalNumHs() for atom in molecule.mol.GetAtoms())
    if not 0 < min(numbers) <= max(numbers) <= heaviest:
        detail = f"atomic numbers {min(numbers)} to {max(numbers)}; the method has 1 to {heaviest}"
        return Refusal(Reason.ELEMENT, detail)
    fault = spin_fault(sum(numbers) + hydrogens - molecule.charge, molecule.multiplicity)
    return Refusal(Reason.MULTIPLICITY, fault) if fault else None


def measured(
    molecule: Molecule,
    level: Level,
    values: Mapping[Property, float | None],
    rigid: Mapping[Property, float],
    flexible: Mapping[Property, float],
    further: Mapping[Property, float] | None = None,
) -> tuple[Measured, ...]:
    """Returns the values, in canonical units, with their uncertainties; values of None are left out.

    rigid, flexible: standard uncertainties for molecules without and with rotatable bonds. further: more standard
    uncertainties of single values, added in quadrature.
    Raises SimulatorError implausible (implausible_value) for a value outside the property's bounds.
    """
    from rdkit.Chem.rdMolDescriptors import CalcNumRotatableBonds

    spread = flexible if CalcNumRotatableBonds(molecule.mol) else rigid
    rows = []
    for prop, value in values.items():
        if value is None:
            continue
        low, high = (-math.inf if prop.low is None else prop.low), (math.inf if prop.high is None else prop.high)
        if not low <= value <= high:
            detail = f"{prop.name} = {value:.4g} {prop.unit}; plausible is {prop.low} to {prop.high}"
            raise failure(Reason.IMPLAUSIBLE_VALUE, detail)
        uncertainty = math.hypot(spread[prop], (further or {}).get(prop, 0.0))
        rows.append(Measured(prop.name, level, Quantity(value, prop.unit, uncertainty)))
    return tuple(rows)


def calculated(
    molecule: Molecule,
    values: Sequence[Measured],
    diagnostics: Mapping[str, Any],
    artifacts: Sequence[ArtifactFile],
    detail: str = "",
) -> Finding:
    """Returns the finding of a successful calculation."""
    return Finding(molecule.key, Outcome.OK, tuple(values), None, detail, dict(diagnostics), tuple(artifacts))


def geometry_artifact(geometry: Geometry, molecule: Molecule, context: Context, what: str = "") -> ArtifactFile:
    """Writes the geometry as XYZ to the scratch folder. what: suffix of the file's name, such as `cation`."""
    file = context.scratch / f"{molecule.key[:16]}{'-' + what if what else ''}.xyz"
    file.write_text(geometry.to_xyz(molecule.smiles), encoding="utf-8")
    return ArtifactFile(file.name, str(file), "chemical/x-xyz")
