"""GAFF2 parameters of a molecule: antechamber gives the atom types, parmchk2 what GAFF2 lacks, tleap the tables.

The tables are a prmtop file in kcal/mol, angstrom and radian, with energies k (r - r0)^2 without the factor 1/2.
tleap decides the order of atoms in improper torsions, on which their energy depends, so that the energies are Amber's.

Sources: Wang et al., J. Comput. Chem. 25, 1157 (2004); He et al., J. Chem. Phys. 153, 114502 (2020), GAFF2; the format:
https://ambermd.org/FileFormats.php.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.force_fields.molecule_parameters import (
    HYDROGEN,
    AngleParameters,
    AtomParameters,
    BondParameters,
    ConstraintParameters,
    MoleculeParameters,
    NonbondedRules,
    TorsionParameters,
)
from sciagent_simulators.geometry_and_its_checks import Positions, failure
from sciagent_simulators.programs.ambertools import antechamber, parmchk2, tleap

NAME = "gaff2"
KILOCALORIE = 4.184  # kJ
ANGSTROM = 0.1  # nm
MAX_PRMTOP = 4_000_000  # characters
SCALE_COULOMB = 1.2  # SCEE: divides the Coulomb energy of atoms three bonds apart
SCALE_LENNARD_JONES = 2.0  # SCNB
RULES = NonbondedRules(1 / SCALE_COULOMB, 1 / SCALE_LENNARD_JONES, cutoff=0.9, switch_width=0.0)
NO_SIGMA = 1.0  # angstrom, of an atom without Lennard-Jones energy


def gaff2_parameters(molecule: Any, positions: Positions, charges: Sequence[float], folder: Path) -> MoleculeParameters:
    """Returns the GAFF2 parameters of an RDKit molecule with explicit hydrogens, with these charges.

    Bonds to hydrogen are constrained to their length in the force field. positions: n x 3, angstrom, of any reasonable
    geometry. folder: a new one.
    Raises SimulatorError as `antechamber`, `parmchk2` and `tleap` do; ValueError as `MoleculeParameters.charged`.
    """
    from rdkit import Chem

    folder.mkdir(parents=True)
    typed = antechamber(molecule, positions, folder / "antechamber", charges=False)
    frcmod = parmchk2(typed, folder / "parmchk2")
    parameters = read_prmtop(tleap(typed, frcmod, folder / "tleap"))
    bonds = {tuple(sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))) for bond in molecule.GetBonds()}
    if {tuple(sorted(pair)) for pair in parameters.bonded_pairs} != bonds:
        raise failure(Reason.BAD_RESULT, "tleap's bonds are not those of the molecule")
    return parameters.charged(charges, Chem.GetFormalCharge(molecule))


def read_prmtop(text: str) -> MoleculeParameters:
    """Returns the parameters in the text of a prmtop file of one molecule, without its charges.

    Raises SimulatorError crashed (bad_result) for a text that is none, or has other scales of pairs than GAFF2.
    """
    try:
        return _parameters(_Tables(text))
    except (ValueError, KeyError, IndexError, ZeroDivisionError) as error:
        raise failure(Reason.BAD_RESULT, f"tleap's tables: {type(error).__name__}: {error}") from error


class _Tables:
    """The tables of a prmtop file: a name, a format such as 5E16.8, and values in columns of that width."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PRMTOP:
            raise ValueError(f"more than {MAX_PRMTOP} characters")
        self._tables: dict[str, list[str]] = {}
        for part in text.split("%FLAG ")[1:]:
            name, form, *lines = part.splitlines()
            match = re.fullmatch(r"%FORMAT\(\d+[aIEF](\d+)(?:\.\d+)?\)", form.strip(), re.IGNORECASE)
            if match is None:
                raise ValueError(f"format {form.strip()!r} of {name.strip()}")
            width = int(match[1])
            cells = [line[start : start + width] for line in lines for start in range(0, len(line.rstrip()), width)]
            self._tables[name.strip()] = [cell.strip() for cell in cells]

    def words(self, name: str) -> list[str]:
        """Returns a table of texts."""
        return self._tables[name]

    def integers(self, name: str) -> list[int]:
        """Returns a table of integers."""
        return [int(cell) for cell in self._tables[name]]

    def numbers(self, name: str) -> list[float]:
        """Returns a table of real numbers."""
        return [float(cell) for cell in self._tables[name]]

    def records(self, kind: str, length: int) -> list[list[int]]:
        """Returns the records of BONDS, ANGLES or DIHEDRALS, those with hydrogen first."""
        values = self.integers(f"{kind}_INC_HYDROGEN") + self.integers(f"{kind}_WITHOUT_HYDROGEN")
        if len(values) % length:
            raise ValueError(f"{len(values)} numbers in {kind}")
        return [values[start : start + length] for start in range(0, len(values), length)]


def _parameters(tables: _Tables) -> MoleculeParameters:
    atoms = _atoms(tables)
    types = tables.words("AMBER_ATOM_TYPE")
    lengths = tables.numbers("BOND_EQUIL_VALUE")
    bond_strengths = tables.numbers("BOND_FORCE_CONSTANT")
    bonds = []
    for *ends, kind in tables.records("BONDS", 3):
        i, j = (end // 3 for end in ends)  # an index of coordinates: three for each atom
        strength = 2 * bond_strengths[kind - 1] * KILOCALORIE / ANGSTROM**2
        bonds.append(BondParameters((i, j), lengths[kind - 1] * ANGSTROM, strength, f"{types[i]}-{types[j]}"))
    angle_values = tables.numbers("ANGLE_EQUIL_VALUE")
    angle_strengths = tables.numbers("ANGLE_FORCE_CONSTANT")
    angles = []
    for *ends, kind in tables.records("ANGLES", 4):
        i, j, k = (end // 3 for end in ends)
        strength = 2 * angle_strengths[kind - 1] * KILOCALORIE
        label = f"{types[i]}-{types[j]}-{types[k]}"
        angles.append(AngleParameters((i, j, k), angle_values[kind - 1], strength, label))
    constraints = []
    for bond in bonds:
        if HYDROGEN in {atoms[atom].number for atom in bond.atoms}:
            constraints.append(ConstraintParameters(bond.atoms, bond.length, bond.label))
    return MoleculeParameters(
        force_field=NAME,
        atoms=tuple(atoms),
        charges=(),
        bonds=tuple(bonds),
        angles=tuple(angles),
        torsions=tuple(_torsions(tables, types)),
        constraints=tuple(constraints),
        rules=RULES,
    )


def _atoms(tables: _Tables) -> list[AtomParameters]:
    """Returns the atoms; sigma and epsilon follow from the coefficients A and B of a pair of equal atoms."""
    kinds = tables.integers("ATOM_TYPE_INDEX")
    n_kinds = tables.integers("POINTERS")[1]
    places = tables.integers("NONBONDED_PARM_INDEX")
    repulsion = tables.numbers("LENNARD_JONES_ACOEF")
    attraction = tables.numbers("LENNARD_JONES_BCOEF")
    rows = zip(
        tables.integers("ATOMIC_NUMBER"), tables.numbers("MASS"), kinds, tables.words("AMBER_ATOM_TYPE"), strict=True
    )
    atoms = []
    for number, mass, kind, label in rows:
        place = places[(n_kinds + 1) * (kind - 1)] - 1
        a = repulsion[place]
        b = attraction[place]
        sigma = (a / b) ** (1 / 6) if b else NO_SIGMA
        epsilon = b * b / (4 * a) if b else 0.0
        atoms.append(AtomParameters(number, mass, sigma * ANGSTROM, epsilon * KILOCALORIE, label))
    return atoms


def _torsions(tables: _Tables, types: Sequence[str]) -> list[TorsionParameters]:
    """Returns the torsions. A negative fourth index marks an improper one; a negative third only excludes a pair."""
    barriers = tables.numbers("DIHEDRAL_FORCE_CONSTANT")
    periodicities = tables.numbers("DIHEDRAL_PERIODICITY")
    phases = tables.numbers("DIHEDRAL_PHASE")
    scales = list(zip(tables.numbers("SCEE_SCALE_FACTOR"), tables.numbers("SCNB_SCALE_FACTOR"), strict=True))
    torsions = []
    for *ends, kind in tables.records("DIHEDRALS", 5):
        is_improper = ends[3] < 0
        i, j, k, m = (abs(end) // 3 for end in ends)
        if not is_improper and ends[2] >= 0 and scales[kind - 1] != (SCALE_COULOMB, SCALE_LENNARD_JONES):
            raise ValueError(f"scales {scales[kind - 1]} of atoms three bonds apart")
        torsion = TorsionParameters(
            atoms=(i, j, k, m),
            periodicity=round(periodicities[kind - 1]),
            phase=phases[kind - 1],
            barrier=barriers[kind - 1] * KILOCALORIE,
            label="-".join(types[atom] for atom in (i, j, k, m)),
            is_improper=is_improper,
        )
        torsions.append(torsion)
    return torsions
