"""The conformer ensemble of a molecule in GFN2-xTB: geometries, energies, degeneracies and Boltzmann weights.

ETKDGv3 conformers are relaxed in the force field, filtered by energy, and ranked by GFN2-xTB single points. Those
within the window plus a margin are relaxed in GFN2-xTB. Conformers whose bonds changed and duplicates are dropped.
An achiral molecule also gets the mirror image of each conformer where it differs: gauche butane counts twice whether
or not both forms were sampled. A conformer's weight counts its equivalent wells, which differ only by a permutation
of equivalent atoms (anti-gauche pentane has two).

Energies are electronic, plus the free energy of solvation in a solvent. Vibrations and rotations are not included.

Two conformers are compared by the smallest root mean square distance over proper rotations and symmetries of the graph.
Hydrogens on carbon are ignored: exchanging them (as in a methyl group) gives no new conformer, and heavy atoms with
the hydrogens on heteroatoms identify a conformer. Reflections are not allowed, so gauche+ and gauche- are different.

Sources: number of embeddings: Ebejer, Morris, Deane, J. Chem. Inf. Model. 52, 1146 (2012). Energy, rotational
constants and root mean square distance as criteria: CREST: Pracht, Bohle, Grimme, PCCP 22, 7169 (2020).
Superposition by singular value decomposition: Kabsch, Acta Cryst. A 34, 827 (1978).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.errors import SimulatorError
from sciagent_simulators.geometry import Geometry, bonds_of, check_bonds
from sciagent_simulators.solvents import Solvation
from sciagent_simulators.starting_geometry import embed
from sciagent_simulators.tblite_engine import XtbResult, energies, relax

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

KCAL = 0.0433641  # eV per kcal/mol
FORCE_FIELD_WINDOW = 15.0  # kcal/mol; MMFF94 energies of hydrogen-bonded conformers are wrong by up to about 10
MARGIN = 3.0 * KCAL  # added to the window before the relaxation, which may lower an energy by this much

# Two conformers are the same when all three criteria hold. FMAX leaves errors of 0.002 eV and 0.05 angstrom.
SAME_ENERGY = 0.1 * KCAL
SAME_MOMENTS = 0.02  # relative
SAME_DISTANCE = 0.25  # angstrom
FMAX = 0.03  # eV/angstrom
MOST_SYMMETRIES = 2000


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The n conformers of a molecule, lowest first."""

    geometries: list[Geometry]
    energies: Array
    """(n,), eV."""
    dipoles: Array
    """(n,), debye."""
    copies: Array
    """(n,), number of equivalent wells of each conformer."""
    mirror: NDArray[np.bool_]
    """(n,), True for a mirror image that was added because it was not sampled."""

    def weights(self, temperature: float) -> Array:
        """Returns the Boltzmann weights, (n,); their sum is 1. temperature: K."""
        factors = boltzmann_factors(self.energies, self.copies, temperature)
        weights: Array = factors / factors.sum()
        return weights

    def free_energy(self, temperature: float) -> float:
        """Returns -kT ln(sum of Boltzmann factors / factor of the lowest conformer), eV; 0 for a single conformer."""
        factors = boltzmann_factors(self.energies, self.copies, temperature)
        return 0.0 - float(BOLTZMANN * temperature * np.log(factors.sum() / factors[0]))

    def dipole(self, temperature: float) -> float:
        """Returns the Boltzmann-weighted root mean square dipole, debye; a dielectric constant measures this mean."""
        return float(np.sqrt(self.weights(temperature) @ self.dipoles**2))

    def to_xyz(self, temperature: float) -> str:
        """Returns all structures as extended XYZ, each with its energy (eV), relative energy (kcal/mol) and weight."""
        above = (self.energies - self.energies[0]) / KCAL
        return "".join(
            geometry.to_xyz(f"energy={energy:.6f} relative_kcal_mol={relative:.3f} weight={weight:.5f}")
            for geometry, energy, relative, weight in zip(
                self.geometries, self.energies, above, self.weights(temperature), strict=True
            )
        )


@dataclass(frozen=True, eq=False)
class Symmetry:
    """The permutations of atoms that leave a molecular graph unchanged."""

    atoms: Indices
    """(k,), indices of the atoms that are compared."""
    permutations: Indices
    """(m, k), positions in `atoms`; the identity is the first."""
    complete: bool
    """Whether the permutations are all that exist."""
    reflections: bool = False
    """Whether a reflection counts as a rotation: a conformer and its mirror image are then one."""

    def distance(self, positions: Array, other: Array) -> float:
        """Returns the smallest root mean square distance, angstrom. positions, other: (n, 3), all atoms."""
        return float(self.distances(positions, other).min())

    def distances(self, positions: Array, other: Array) -> Array:
        """Returns the distance for each permutation of `other`, smallest over the rotations, (m,), angstrom."""
        a = positions[self.atoms]
        b = other[self.atoms]
        a = a - a.mean(axis=0)
        b = b - b.mean(axis=0)
        # sum |R a - b|^2 depends on the rotation R only through the trace of R times this covariance, (m, 3, 3).
        covariance = np.einsum("ki,mkj->mij", a, b[self.permutations])
        singular = np.linalg.svd(covariance, compute_uv=False)
        if not self.reflections:
            singular[:, 2] *= np.where(np.linalg.det(covariance) < 0, -1.0, 1.0)
        residual = (a**2).sum() + (b**2).sum() - 2 * singular.sum(axis=1)
        distances: Array = np.sqrt(np.maximum(residual, 0.0) / len(a))
        return distances

    def copies(self, positions: Array, tolerance: float) -> float:
        """Returns the number of equivalent wells of this conformer, up to a factor that all conformers share.

        It is m over the number of permutations equal to a rotation (the rotational symmetry number): pentane has
        anti-gauche twice and anti-anti once. It is 1 if not all permutations are known.
        """
        if not self.complete:
            return 1.0
        return len(self.permutations) / int((self.distances(positions, positions) < tolerance).sum())


def symmetry(mol: Any) -> Symmetry:
    """Returns the symmetry of an RDKit molecule with implicit hydrogens; atoms are numbered as in `geometry.embed`.

    Equivalence depends on element, hydrogens on carbon and neighbours, but not on formal charge and bond order: the
    oxygens of a carboxylate are equivalent.
    """
    from rdkit import Chem

    full = Chem.AddHs(mol)
    on_carbon = {
        a.GetIdx()
        for a in full.GetAtoms()
        if a.GetAtomicNum() == 1 and {n.GetAtomicNum() for n in a.GetNeighbors()} == {6}
    }
    kept = [a for a in full.GetAtoms() if a.GetIdx() not in on_carbon] or list(full.GetAtoms())
    place = {atom.GetIdx(): k for k, atom in enumerate(kept)}
    graph = Chem.RWMol()
    for atom in kept:
        copy = Chem.Atom(atom.GetAtomicNum())
        copy.SetIsotope(1 + sum(n.GetIdx() in on_carbon for n in atom.GetNeighbors()))  # label used by the matching
        copy.SetNoImplicit(True)
        graph.AddAtom(copy)
    for bond in full.GetBonds():
        begin = bond.GetBeginAtomIdx()
        end = bond.GetEndAtomIdx()
        if begin in place and end in place:
            graph.AddBond(place[begin], place[end], Chem.BondType.SINGLE)
    matches = graph.GetSubstructMatches(graph, uniquify=False, maxMatches=MOST_SYMMETRIES)
    return Symmetry(
        np.array(list(place), dtype=np.intp), np.array(matches, dtype=np.intp), len(matches) < MOST_SYMMETRIES
    )


def how_many(mol: Any) -> int:
    """Returns the number of conformers to embed: 10, 50, 100, 200 or 300 for up to 0, 2, 5, 9 or more turning bonds.

    Turning bonds are rotatable bonds, bonds to OH, SH and NH, and half of the saturated ring bonds. (The source counts
    rotatable bonds only; it embeds 50 conformers for up to 7 of them and 200 for up to 12.)
    """
    from rdkit import Chem
    from rdkit.Chem.rdMolDescriptors import CalcNumRotatableBonds

    polar = Chem.MolFromSmarts("[OX2H1,SX2H1,NX3;H1,H2;!$(NC=[O,S,N])]-[!#1]")
    ring = Chem.MolFromSmarts("[CX4,OX2,NX3,SX2]-;@[CX4]")
    turning = CalcNumRotatableBonds(mol) + len(mol.GetSubstructMatches(polar))
    turning += len(mol.GetSubstructMatches(ring)) // 2
    return next(n for most, n in ((0, 10), (2, 50), (5, 100), (9, 200), (10**6, 300)) if turning <= most)


def resolved(mol: Any) -> Any | None:
    """Returns the molecule with all stereocentres defined, if its stereoisomers are one molecule or two enantiomers.

    Returns None for diastereomers, whose ensembles must not be mixed.
    """
    from rdkit import Chem
    from rdkit.Chem import EnumerateStereoisomers

    enumeration: Any = EnumerateStereoisomers
    options = enumeration.StereoEnumerationOptions(unique=True, onlyUnassigned=True, maxIsomers=8)
    isomers = enumeration.EnumerateStereoisomers(Chem.Mol(mol), options=options)
    by_smiles = {str(Chem.MolToSmiles(isomer)): isomer for isomer in isomers}
    first = min(by_smiles)
    return by_smiles[first] if set(by_smiles) <= {first, mirror_smiles(by_smiles[first])} else None


def mirror_smiles(mol: Any) -> str:
    """Returns the canonical SMILES of the mirror image."""
    from rdkit import Chem

    image = Chem.Mol(mol)
    for atom in image.GetAtoms():
        atom.InvertChirality()
    return str(Chem.MolToSmiles(Chem.MolFromSmiles(Chem.MolToSmiles(image))))


def search(
    mol: Any,
    charge: int,
    multiplicity: int,
    seed: int,
    embedded: int | None = None,
    window: float = 4.0 * KCAL,
    most_relaxed: int = 100,
    solvation: Solvation | None = None,
) -> tuple[Ensemble, dict[str, Any]]:
    """Returns the conformers within `window` (eV) of the lowest, and diagnostics.

    mol: RDKit molecule with defined stereo. embedded: number of conformers, None for `how_many`. most_relaxed: largest
    number of conformers relaxed in GFN2-xTB. Diagnostics: counts at each stage; `found_once`: share of embeddings whose
    force-field conformer occurred once, an estimate that the next one is new (Good and Turing).
    Raises SimulatorError as `embed` and `relax` do, and unstable (bond_changed) if no conformer keeps its bonds.
    """
    wanted = embedded or how_many(mol)
    starts, diagnostics, force_field = embed(mol, charge, multiplicity, wanted, seed)
    alike = symmetry(mol)
    near = [k for k in range(len(starts)) if force_field[k] - force_field[0] <= FORCE_FIELD_WINDOW]
    kept, occurs = distinct([starts[k] for k in near], force_field[near] * KCAL, alike)
    single = energies([starts[near[k]] for k in kept], solvation=solvation)
    order = [int(k) for k in np.argsort(single, kind="stable") if single[k] - single.min() <= window + MARGIN]
    ensemble, facts = ensemble_of([starts[near[kept[k]]] for k in order[:most_relaxed]], mol, window, solvation)
    return ensemble, {
        **diagnostics,
        **facts,
        "after_force_field": len(kept),
        "not_relaxed": max(0, len(order) - most_relaxed),
        "found_once": round(sum(n == 1 for n in occurs.values()) / len(near), 3),
    }


def ensemble_of(
    starts: list[Geometry], mol: Any, window: float, solvation: Solvation | None = None
) -> tuple[Ensemble, Mapping[str, Any]]:
    """Returns the distinct conformers that these geometries relax to, within `window` (eV) of the lowest, and counts.

    mol: RDKit molecule with defined stereo. Raises the first SimulatorError if no geometry keeps its bonds.
    """
    from rdkit import Chem

    alike = symmetry(mol)
    relaxed, failed = _relaxed(starts, bonds_of(mol), solvation)
    total = np.array([result.energy for _, result in relaxed])
    places, _ = distinct([geometry for geometry, _ in relaxed], total, alike)
    places = [k for k in places if total[k] - total.min() <= window]
    mirrored = mirror_smiles(mol) == Chem.MolToSmiles(mol)
    ensemble = _assembled([relaxed[k] for k in places], alike, mirrored)
    return ensemble, {
        "relaxed": len(relaxed),
        "failed": failed,
        "distinct": len(places),
        "mirror_images": int(ensemble.mirror.sum()),
        "symmetry_complete": alike.complete,
    }


def distinct(
    geometries: list[Geometry],
    values: Array,
    alike: Symmetry,
    same_energy: float = SAME_ENERGY,
    occurrences: Sequence[int] | None = None,
) -> tuple[list[int], dict[int, int]]:
    """Returns the index of the lowest geometry of each distinct conformer, by ascending value, and how often it occurs.

    values: (n,), eV. Only pairs within `same_energy` (eV) are superposed. occurrences: how often each geometry counts,
    default once.
    """
    moments = np.array([geometry.atoms.get_moments_of_inertia() for geometry in geometries])
    scale = np.maximum(moments.max(axis=1), 1e-6)
    kept: list[int] = []
    counts: dict[int, int] = {}
    for k in (int(i) for i in np.argsort(values, kind="stable")):
        same = (
            other
            for other in reversed(kept)
            if values[k] - values[other] <= same_energy
            and np.abs(moments[k] - moments[other]).max() <= SAME_MOMENTS * scale[other]
            and alike.distance(geometries[k].positions, geometries[other].positions) < SAME_DISTANCE
        )
        first = next(same, k)
        if first == k:
            kept.append(k)
        counts[first] = counts.get(first, 0) + (1 if occurrences is None else occurrences[k])
    return kept, counts


def _relaxed(
    starts: list[Geometry], bonds: list[tuple[int, int]], solvation: Solvation | None
) -> tuple[list[tuple[Geometry, XtbResult]], dict[str, int]]:
    """Returns the relaxed conformers that kept their bonds, and the number of failures for each reason."""
    relaxed: list[tuple[Geometry, XtbResult]] = []
    problems: list[SimulatorError] = []
    for start in starts:
        try:
            geometry, result = relax(start, fmax=FMAX, solvation=solvation)
            check_bonds(geometry, bonds)
            relaxed.append((geometry, result))
        except SimulatorError as error:
            problems.append(error)
    if not relaxed:
        raise problems[0]
    return relaxed, dict(Counter(problem.reason for problem in problems))


def _assembled(relaxed: list[tuple[Geometry, XtbResult]], alike: Symmetry, mirrored: bool) -> Ensemble:
    """Returns the ensemble, with each mirror image that is a conformer of its own and was not sampled."""
    members = [(geometry, result.energy, result.dipole, False) for geometry, result in relaxed]
    for geometry, result in relaxed if mirrored else ():
        image = geometry.moved(geometry.positions * [1.0, 1.0, -1.0])
        rivals = [other for other, own in relaxed if abs(own.energy - result.energy) <= SAME_ENERGY]
        if all(alike.distance(image.positions, other.positions) >= SAME_DISTANCE for other in rivals):
            members.append((image, result.energy, result.dipole, True))
    members.sort(key=lambda member: member[1])
    geometries, values, dipoles, mirror = zip(*members, strict=True)
    copies = [alike.copies(geometry.positions, SAME_DISTANCE) for geometry in geometries]
    return Ensemble(list(geometries), *map(np.array, (values, dipoles, copies, mirror)))


BOLTZMANN = 8.617333262e-5  # eV/K


UNLIKELY = 1e-6  # sets of conformers with a smaller probability are left out


class AverageKind(Enum):
    """The kinds of average over conformers with values x_k, energies E_k and degeneracies d_k."""

    MEAN = "sum w_k x_k"
    ROOT_MEAN_SQUARE = "sqrt(sum w_k x_k^2)"
    FREE_ENERGY = "-kT ln sum d_k exp(-x_k / kT)"
    FREE_ENERGY_CHANGE = "-kT ln sum w_k exp(-x_k / kT)"


@dataclass(frozen=True, eq=False)
class ConformerPopulation:
    """The k conformers of a molecule at a temperature."""

    energies: Array
    """(k,), eV; free energies where the conformers have them."""
    degeneracies: Array
    """(k,), number of equivalent wells."""
    temperature: float
    """K."""

    @property
    def weights(self) -> Array:
        """The Boltzmann weights, (k,); their sum is 1."""
        factors = boltzmann_factors(self.energies, self.degeneracies, self.temperature)
        weights: Array = factors / factors.sum()
        return weights

    def average(self, kind: AverageKind, values: Array) -> float:
        """Returns the average of the values, (k,), in their unit; for free energies eV."""
        if kind is AverageKind.MEAN:
            return float(self.weights @ values)
        if kind is AverageKind.ROOT_MEAN_SQUARE:
            return float(np.sqrt(self.weights @ values**2))
        sizes = self.degeneracies if kind is AverageKind.FREE_ENERGY else self.weights
        factors = boltzmann_factors(values, sizes, self.temperature)
        return float(values.min() - BOLTZMANN * self.temperature * np.log(factors.sum()))

    def spread(self, kind: AverageKind, values: Array, found: NDArray[np.int_], embedded: int) -> float:
        """Returns the standard deviation of the average over repeated searches, in the values' unit.

        found: (k,), how often the search found each conformer; embedded: how many conformers it embedded.
        """
        probabilities = set_probabilities(found, embedded)
        sets = [int(s) for s in np.flatnonzero(probabilities > UNLIKELY) if s]
        averages = np.array([self._part(s).average(kind, values[_members(s, len(values))]) for s in sets])
        shares = probabilities[sets]
        mean = np.average(averages, weights=shares)
        return float(np.sqrt(np.average((averages - mean) ** 2, weights=shares)))

    def _part(self, number: int) -> ConformerPopulation:
        members = _members(number, len(self.energies))
        return ConformerPopulation(self.energies[members], self.degeneracies[members], self.temperature)


def boltzmann_factors(energies: Array, degeneracies: Array, temperature: float) -> Array:
    """Returns d_k exp(-(E_k - E_lowest) / kT), (k,). temperature: K."""
    factors: Array = degeneracies * np.exp(-(energies - energies.min()) / (BOLTZMANN * temperature))
    return factors


def set_probabilities(found: NDArray[np.int_], embedded: int) -> Array:
    """Returns the probability that exactly the conformers of a set are among n draws with replacement, (2^k,).

    Bit i of a set's number tells whether conformer i is in it. By inclusion and exclusion over the subsets; conformers
    that are not in `found` may be drawn too.
    """
    k = len(found)
    bits = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    others = embedded - int(found.sum())
    probabilities: Array = ((bits @ found + others) / embedded) ** embedded  # nothing outside the set is drawn
    for i in range(k):
        inside = (np.arange(2**k) >> i) & 1 == 1
        probabilities[inside] -= probabilities[~inside]
    return np.maximum(probabilities, 0.0)


def _members(number: int, k: int) -> NDArray[np.intp]:
    """Returns the indices of the conformers in the set with this number."""
    return np.array([i for i in range(k) if number >> i & 1], dtype=np.intp)
