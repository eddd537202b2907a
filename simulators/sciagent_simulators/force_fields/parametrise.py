"""The one entry to force fields: a molecule and the name of a force field give its parameters, or a named refusal.

What a force field cannot describe is refused before anything is computed: charged molecules, whose box would need
counter-ions; radicals, isotopes and foreign elements; several fragments; molecules without their hydrogens. The labels
of OpenFF, which cost milliseconds, come before the charges, which cost seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.force_fields.charges import am1bcc_charges
from sciagent_simulators.force_fields.gaff import gaff2_parameters
from sciagent_simulators.force_fields.molecule_parameters import MoleculeParameters
from sciagent_simulators.force_fields.smirnoff import installed_force_field, labels_of, library_charges, parameters_of
from sciagent_simulators.starting_geometry import embed

ForceFieldName = Literal["openff-2.2.1", "gaff2"]
ELEMENTS = {1: "H", 6: "C", 7: "N", 8: "O", 9: "F", 15: "P", 16: "S", 17: "Cl", 35: "Br", 53: "I"}
"""{atomic number: symbol} of the elements for which both force fields and AM1-BCC have parameters."""
MAX_HEAVY_ATOMS = 60


def parametrise(
    molecule: Any, force_field: ForceFieldName, folder: Path, seed: int, charges: Sequence[float] | None = None
) -> MoleculeParameters:
    """Returns the parameters of an RDKit molecule with explicit hydrogens, in its order of atoms.

    Bonds to hydrogen are constrained. folder: a new one, in which programs run. seed: of the conformers.
    charges: n partial charges, elementary charges, such as those of an earlier run; None for those that the force field
    lists itself, as for water, or else AM1-BCC.
    Raises SimulatorError refused as `check_supported`, and as `labels_of`, `am1bcc_charges` and `gaff2_parameters` do;
    ValueError for charges that do not fit the molecule.
    """
    check_supported(molecule)
    if force_field == "gaff2":
        return _gaff2(molecule, folder, seed, charges)
    rows = installed_force_field(force_field)
    labels_of(molecule, rows)
    if charges is None:
        charges = library_charges(molecule, rows)
    if charges is None:
        charges = am1bcc_charges(molecule, folder, seed).tolist()
    return parameters_of(molecule, rows, charges)


def check_supported(molecule: Any) -> None:
    """Checks that force fields and charges can describe an RDKit molecule.

    Raises SimulatorError refused: too_small, multiple_fragments, too_large, element, isotope, valence (hydrogens that
    are not explicit), radical, charge.
    """
    from rdkit import Chem

    atoms = list(molecule.GetAtoms())
    if not atoms:
        raise _refusal(Reason.TOO_SMALL, "no atoms")
    heavy = molecule.GetNumHeavyAtoms()
    if heavy > MAX_HEAVY_ATOMS:
        raise _refusal(Reason.TOO_LARGE, f"{heavy} heavy atoms; the limit is {MAX_HEAVY_ATOMS}")
    fragments = len(Chem.GetMolFrags(molecule))
    if fragments > 1:
        raise _refusal(Reason.MULTIPLE_FRAGMENTS, f"{fragments} fragments; parameters are made for one at a time")
    for atom in atoms:
        _check_atom(atom)
    charge = Chem.GetFormalCharge(molecule)
    if charge:
        raise _refusal(Reason.CHARGE, f"charge {charge:+d}: a box needs counter-ions, which are not placed")


def _check_atom(atom: Any) -> None:
    place = f"atom {atom.GetSymbol()}{atom.GetIdx()}"
    if atom.GetAtomicNum() not in ELEMENTS:
        raise _refusal(Reason.ELEMENT, f"{place}: there are parameters for {', '.join(ELEMENTS.values())} only")
    if atom.GetIsotope():
        raise _refusal(Reason.ISOTOPE, f"{place} is the isotope {atom.GetIsotope()}")
    if atom.GetNumRadicalElectrons():
        raise _refusal(Reason.RADICAL, f"{place} has {atom.GetNumRadicalElectrons()} unpaired electrons")
    if atom.GetTotalNumHs():
        raise _refusal(Reason.VALENCE, f"{place} has {atom.GetTotalNumHs()} hydrogens that are not among the atoms")


def _gaff2(molecule: Any, folder: Path, seed: int, charges: Sequence[float] | None) -> MoleculeParameters:
    """Returns GAFF2 parameters; atom types come before the charges, which cost more."""
    geometries, _, _ = embed(molecule, 0, 1, 1, seed)
    folder.mkdir(parents=True)
    n_atoms = molecule.GetNumAtoms()
    parameters = gaff2_parameters(molecule, geometries[0].positions, [0.0] * n_atoms, folder / "gaff2")
    if charges is None:
        charges = am1bcc_charges(molecule, folder / "charges", seed).tolist()
    return parameters.charged(charges)


def _refusal(reason: Reason, detail: str) -> SimulatorError:
    return SimulatorError(Outcome.REFUSED, reason, detail)
