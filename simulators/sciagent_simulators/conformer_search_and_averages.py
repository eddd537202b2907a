"""The conformer ensemble of a molecule on a surface, the comparison of conformers, and Boltzmann averages over them.

The surface is GFN2-xTB or a molecular potential (`Surface`). ETKDGv3 conformers are relaxed in the force field,
filtered by energy, and ranked by single points on the surface. Conformers within the window plus a margin are relaxed
on it. Conformers whose bonds changed and duplicates are dropped.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sciagent.chemistry.isomers_and_tautomers import mirror_smiles, undefined_stereo, with_hydrogens_of_imines
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry, bonds_of, check_bonds
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation
from sciagent_simulators.starting_geometry import embed
from sciagent_simulators.tblite_engine import energies, relax

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

KCAL = 0.0433641  # eV per kcal/mol
FORCE_FIELD_WINDOW = 15.0  # kcal/mol; MMFF94 energies of hydrogen-bonded conformers are wrong by up to about 10
MARGIN = 3.0 * KCAL  # added to the window before the relaxation, which may lower an energy by this much

# Two conformers are the same when all three criteria hold. A relaxation to FMAX leaves errors of 0.002 eV and 0.05
# angstrom.
SAME_ENERGY = 0.1 * KCAL  # eV
SAME_MOMENTS = 0.02  # difference of the moments of inertia, relative to the largest moment
SAME_DISTANCE = 0.25  # angstrom
FMAX = 0.03  # eV/angstrom
MAX_PERMUTATIONS = 2000
EMBEDDINGS = ((0, 10), (2, 50), (5, 100), (9, 200))
"""(largest number of turning bonds, number of conformers to embed)."""
MAX_EMBEDDINGS = 300
"""Number of conformers to embed for more turning bonds than the last entry of EMBEDDINGS has."""


class Minimum(Protocol):
    """The values of a method at a relaxed geometry."""

    @property
    def energy(self) -> float:
        """In eV."""
        ...

    @property
    def dipole(self) -> float | None:
        """Norm in debye; None if the method has none."""
        ...


@dataclass(frozen=True)
class Surface:
    """The potential energy surface of a method."""

    energies: Callable[[Sequence[Geometry]], Array]
    """Returns the energies of n geometries, (n,), eV; infinite where the method fails. Raises SimulatorError if it
    fails for all."""
    relax: Callable[[Geometry], tuple[Geometry, Minimum]]
    """Returns a geometry relaxed to FMAX, and its values. Raises SimulatorError."""


def gfn2_surface(solvation: Solvation | None = None) -> Surface:
    """Returns the surface of GFN2-xTB, in the gas phase or in a solvent."""
    return Surface(
        energies=partial(energies, solvation=solvation), relax=partial(relax, fmax=FMAX, solvation=solvation)
    )


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The n conformers of a molecule, lowest first."""

    geometries: list[Geometry]
    energies: Array
    """(n,), eV."""
    dipoles: Array
    """(n,), debye; NaN if the method has none."""
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
        # 0 - x instead of -x, so that a single conformer gives 0 and not -0
        return 0.0 - float(BOLTZMANN * temperature * np.log(factors.sum() / factors[0]))

    def dipole(self, temperature: float) -> float:
        """Returns the Boltzmann-weighted root mean square dipole, debye; a dielectric constant measures this mean."""
        return float(np.sqrt(self.weights(temperature) @ self.dipoles**2))

    def to_xyz(self, temperature: float) -> str:
        """Returns all structures as extended XYZ, each with its energy (eV), relative energy (kcal/mol) and weight."""
        above = (self.energies - self.energies[0]) / KCAL
        weights = self.weights(temperature)
        structures = []
        for geometry, energy, relative, weight in zip(self.geometries, self.energies, above, weights, strict=True):
            comment = f"energy={energy:.6f} relative_kcal_mol={relative:.3f} weight={weight:.5f}"
            structures.append(geometry.to_xyz(comment))
        return "".join(structures)


@dataclass(frozen=True, eq=False)
class Symmetry:
    """The permutations of atoms that leave a molecular graph unchanged."""

    atoms: Indices
    """(k,), indices of the atoms that are compared."""
    permutations: Indices
    """(m, k), positions in `atoms`; the identity is the first."""
    complete: bool
    """Whether the permutations are all that exist; False if the search ended at MAX_PERMUTATIONS."""
    reflections: bool = False
    """Whether a reflection counts as a rotation: a conformer and its mirror image are then one."""

    def distance(self, positions: Array, other: Array) -> float:
        """Returns the smallest root mean square distance, angstrom. positions, other: (n, 3), all atoms."""
        return float(self.distances(positions, other).min())

    def distances(self, positions: Array, other: Array) -> Array:
        """Returns the root mean square distance for each permutation of `other`, (m,), angstrom.

        For each permutation it is the smallest over all rotations.
        """
        a = positions[self.atoms]
        b = other[self.atoms]
        a = a - a.mean(axis=0)
        b = b - b.mean(axis=0)
        # sum |R a - b|^2 depends on the rotation R only through the trace of R times this covariance, (m, 3, 3).
        covariance = np.einsum("ki,mkj->mij", a, b[self.permutations])
        singular = np.linalg.svd(covariance, compute_uv=False)
        if not self.reflections:
            needs_reflection = np.linalg.det(covariance) < 0
            singular[:, 2] *= np.where(needs_reflection, -1.0, 1.0)
        residual = (a**2).sum() + (b**2).sum() - 2 * singular.sum(axis=1)
        distances: Array = np.sqrt(np.maximum(residual, 0.0) / len(a))
        return distances

    def copies(self, positions: Array, tolerance: float) -> float:
        """Returns the number of equivalent wells of this conformer, up to a factor that all conformers share.

        The result is m over the number of permutations equal to a rotation (the rotational symmetry number): pentane
        has anti-gauche twice and anti-anti once. The result is 1 if not all permutations are known.
        tolerance: root mean square distance, angstrom, below which a permutation equals a rotation.
        """
        if not self.complete:
            return 1.0
        equals_rotation = self.distances(positions, positions) < tolerance
        return len(self.permutations) / int(equals_rotation.sum())


def symmetry(mol: Any) -> Symmetry:
    """Returns the symmetry of an RDKit molecule with implicit hydrogens; atoms are numbered as by `embed`.

    Equivalence depends on element, hydrogens on carbon and neighbours, but not on formal charge and bond order: the
    oxygens of a carboxylate are equivalent.
    """
    from rdkit import Chem

    full = Chem.AddHs(mol)
    hydrogens_on_carbon = {atom.GetIdx() for atom in full.GetAtoms() if _is_hydrogen_on_carbon(atom)}
    compared = [atom for atom in full.GetAtoms() if atom.GetIdx() not in hydrogens_on_carbon]
    if not compared:
        compared = list(full.GetAtoms())
    node_of = {atom.GetIdx(): node for node, atom in enumerate(compared)}
    graph = Chem.RWMol()
    for atom in compared:
        node = Chem.Atom(atom.GetAtomicNum())
        n_hydrogens = sum(neighbour.GetIdx() in hydrogens_on_carbon for neighbour in atom.GetNeighbors())
        node.SetIsotope(1 + n_hydrogens)  # the matching compares isotopes, so the isotope serves as a label
        node.SetNoImplicit(True)
        graph.AddAtom(node)
    for bond in full.GetBonds():
        begin = bond.GetBeginAtomIdx()
        end = bond.GetEndAtomIdx()
        if begin in node_of and end in node_of:
            graph.AddBond(node_of[begin], node_of[end], Chem.BondType.SINGLE)
    matches = graph.GetSubstructMatches(graph, uniquify=False, maxMatches=MAX_PERMUTATIONS)
    return Symmetry(
        atoms=np.array(list(node_of), dtype=np.intp),
        permutations=np.array(matches, dtype=np.intp),
        complete=len(matches) < MAX_PERMUTATIONS,
    )


def _is_hydrogen_on_carbon(atom: Any) -> bool:
    """Returns whether an RDKit atom is a hydrogen that is bonded to carbon only."""
    return atom.GetAtomicNum() == 1 and {neighbour.GetAtomicNum() for neighbour in atom.GetNeighbors()} == {6}


def n_conformers_to_embed(mol: Any) -> int:
    """Returns the number of conformers to embed: 10, 50, 100, 200 or 300 for up to 0, 2, 5, 9 or more turning bonds.

    (The source counts rotatable bonds only; it embeds 50 conformers for up to 7 of them and 200 for up to 12.)
    """
    n_turning = turning_bonds(mol)
    for max_turning, n_conformers in EMBEDDINGS:
        if n_turning <= max_turning:
            return n_conformers
    return MAX_EMBEDDINGS


def turning_bonds(mol: Any) -> int:
    """Returns the number of rotatable bonds, bonds to OH, SH and NH, and half of the saturated ring bonds."""
    from rdkit import Chem
    from rdkit.Chem.rdMolDescriptors import CalcNumRotatableBonds

    saturated_ring_bond = Chem.MolFromSmarts("[CX4,OX2,NX3,SX2]-;@[CX4]")
    n_half_ring_bonds = len(mol.GetSubstructMatches(saturated_ring_bond)) // 2
    return int(CalcNumRotatableBonds(mol)) + polar_hydrogen_bonds(mol) + n_half_ring_bonds


def polar_hydrogen_bonds(mol: Any) -> int:
    """Returns the number of bonds about which an OH, SH, NH or NH2 turns; amides are planar and do not count."""
    from rdkit import Chem

    bond_to_polar_hydrogen = Chem.MolFromSmarts("[OX2H1,SX2H1,NX3;H1,H2;!$(NC=[O,S,N])]-[!#1]")
    return len(mol.GetSubstructMatches(bond_to_polar_hydrogen))


def with_defined_stereo(mol: Any) -> Any | None:
    """Returns the molecule with all stereocentres defined, if its stereoisomers are one molecule or two enantiomers.

    mol: an RDKit molecule. Returns None for diastereomers, whose ensembles must not be mixed. The isomers of C=N-H
    count, too, and so do those that no SMILES tells apart, such as syn and anti of a quinone's two imines.
    """
    by_smiles = _isomers(with_hydrogens_of_imines(mol, undefined_stereo(mol)))
    first_smiles = min(by_smiles)
    first_isomer = by_smiles[first_smiles]
    enantiomers = {first_smiles, mirror_smiles(first_isomer)}
    has_diastereomers = not set(by_smiles) <= enantiomers
    if has_diastereomers or undefined_stereo(first_isomer):
        return None
    without_hydrogens = _isomers(mol)  # with the atoms of `mol`
    return without_hydrogens[min(without_hydrogens)]  # one choice for every numbering of the atoms


def _isomers(mol: Any) -> dict[str, Any]:
    """Returns at most eight stereoisomers of a molecule, by SMILES."""
    from rdkit import Chem
    from rdkit.Chem import EnumerateStereoisomers

    enumeration: Any = EnumerateStereoisomers
    options = enumeration.StereoEnumerationOptions(unique=True, onlyUnassigned=True, maxIsomers=8)
    isomers = enumeration.EnumerateStereoisomers(Chem.Mol(mol), options=options)
    return {str(Chem.MolToSmiles(isomer)): isomer for isomer in isomers}


def search(
    mol: Any,
    charge: int,
    multiplicity: int,
    seed: int,
    embedded: int | None = None,
    window: float = 4.0 * KCAL,
    most_relaxed: int = 100,
    surface: Surface | None = None,
) -> tuple[Ensemble, dict[str, Any]]:
    """Returns the conformers within `window` (eV) of the lowest, and diagnostics.

    mol: RDKit molecule with defined stereo. embedded: number of conformers to embed, None for the answer of
    `n_conformers_to_embed`. most_relaxed: largest number of conformers relaxed on the surface, which by default is that
    of GFN2-xTB. Diagnostics: counts at each stage; `found_once`: share of embeddings whose force-field conformer
    occurred once, which estimates how likely one more embedding gives a new conformer (Good and Turing).
    Raises SimulatorError as `embed` and the surface do, and unstable (bond_changed) if no conformer keeps its bonds.
    """
    n_embeddings = embedded or n_conformers_to_embed(mol)
    geometries, diagnostics, force_field_energies = embed(mol, charge, multiplicity, n_embeddings, seed)  # kcal/mol
    is_near = force_field_energies - force_field_energies[0] <= FORCE_FIELD_WINDOW
    near = [geometry for geometry, keep in zip(geometries, is_near, strict=True) if keep]
    distinct_indices, occurrences = distinct(near, force_field_energies[is_near] * KCAL, symmetry(mol))
    candidates = [near[k] for k in distinct_indices]
    surface = surface or gfn2_surface()
    start_energies = surface.energies(candidates)
    limit = window + MARGIN
    lowest_energy = start_energies.min()
    lowest_first = np.argsort(start_energies, kind="stable")
    order = [int(k) for k in lowest_first if start_energies[k] - lowest_energy <= limit]
    starts = [candidates[k] for k in order[:most_relaxed]]
    ensemble, facts = ensemble_of(starts, mol, window, surface)
    n_found_once = sum(n == 1 for n in occurrences.values())
    return ensemble, {
        **diagnostics,
        **facts,
        "after_force_field": len(candidates),
        "not_relaxed": max(0, len(order) - most_relaxed),
        "found_once": round(n_found_once / len(near), 3),
    }


def ensemble_of(
    starts: list[Geometry], mol: Any, window: float, surface: Surface
) -> tuple[Ensemble, Mapping[str, Any]]:
    """Returns the distinct conformers that these geometries relax to, within `window` (eV) of the lowest, and counts.

    mol: RDKit molecule with defined stereo. Raises the first SimulatorError if no geometry keeps its bonds.
    """
    from rdkit import Chem

    graph_symmetry = symmetry(mol)
    relaxed, failures = _relaxed(starts, bonds_of(mol), surface)
    totals = np.array([result.energy for _, result in relaxed])
    distinct_indices, _ = distinct([geometry for geometry, _ in relaxed], totals, graph_symmetry)
    low = [relaxed[k] for k in distinct_indices if totals[k] - totals.min() <= window]
    is_achiral = mirror_smiles(mol) == Chem.MolToSmiles(mol)
    ensemble = _assembled(low, graph_symmetry, is_achiral)
    return ensemble, {
        "relaxed": len(relaxed),
        "failed": failures,
        "distinct": len(low),
        "mirror_images": int(ensemble.mirror.sum()),
        "symmetry_complete": graph_symmetry.complete,
    }


def distinct(
    geometries: list[Geometry],
    values: Array,
    graph_symmetry: Symmetry,
    same_energy: float = SAME_ENERGY,
    occurrences: Sequence[int] | None = None,
) -> tuple[list[int], dict[int, int]]:
    """Returns the indices of the lowest geometry of each distinct conformer, by ascending value, and counts by index.

    values: (n,), eV. Only pairs within `same_energy` (eV) are superposed. occurrences: how often each geometry counts,
    default once. A conformer's count is the sum over its geometries.
    """
    moments = np.array([geometry.atoms.get_moments_of_inertia() for geometry in geometries])
    largest_moments = np.maximum(moments.max(axis=1), 1e-6)  # a single atom has none

    def is_same(k: int, other: int) -> bool:
        if values[k] - values[other] > same_energy:
            return False
        if np.abs(moments[k] - moments[other]).max() > SAME_MOMENTS * largest_moments[other]:
            return False
        return graph_symmetry.distance(geometries[k].positions, geometries[other].positions) < SAME_DISTANCE

    distinct_indices: list[int] = []
    counts: dict[int, int] = {}
    for index in np.argsort(values, kind="stable"):
        k = int(index)
        conformer = k
        for other in reversed(distinct_indices):  # the nearest in energy first
            if is_same(k, other):
                conformer = other
                break
        if conformer == k:
            distinct_indices.append(k)
        occurrence = 1 if occurrences is None else occurrences[k]
        counts[conformer] = counts.get(conformer, 0) + occurrence
    return distinct_indices, counts


def _relaxed(
    starts: list[Geometry], bonds: list[tuple[int, int]], surface: Surface
) -> tuple[list[tuple[Geometry, Minimum]], dict[str, int]]:
    """Returns the relaxed conformers that kept their bonds, and the number of failures for each reason.

    Raises the first SimulatorError if all geometries fail.
    """
    relaxed: list[tuple[Geometry, Minimum]] = []
    problems: list[SimulatorError] = []
    for start in starts:
        try:
            geometry, result = surface.relax(start)
            check_bonds(geometry, bonds)
            relaxed.append((geometry, result))
        except SimulatorError as error:
            problems.append(error)
    if not relaxed:
        raise problems[0]
    return relaxed, dict(Counter(problem.reason for problem in problems))


def _assembled(relaxed: list[tuple[Geometry, Minimum]], graph_symmetry: Symmetry, has_mirror_images: bool) -> Ensemble:
    """Returns the ensemble, lowest conformer first.

    has_mirror_images: whether to add each mirror image that is a conformer of its own and was not sampled.
    """
    members = [(geometry, result, False) for geometry, result in relaxed]
    if has_mirror_images:
        for geometry, result in relaxed:
            image = geometry.moved(geometry.positions * [1.0, 1.0, -1.0])  # reflected in the plane of x and y
            rivals = [other for other, own in relaxed if abs(own.energy - result.energy) <= SAME_ENERGY]
            distances = [graph_symmetry.distance(image.positions, rival.positions) for rival in rivals]
            if min(distances) >= SAME_DISTANCE:  # there is at least one: the conformer is among its own rivals
                members.append((image, result, True))
    members.sort(key=lambda member: member[1].energy)
    geometries = [geometry for geometry, _, _ in members]
    return Ensemble(
        geometries=geometries,
        energies=np.array([result.energy for _, result, _ in members]),
        dipoles=np.array([result.dipole for _, result, _ in members], dtype=float),
        copies=np.array([graph_symmetry.copies(geometry.positions, SAME_DISTANCE) for geometry in geometries]),
        mirror=np.array([is_mirror_image for _, _, is_mirror_image in members]),
    )


BOLTZMANN = 8.617333262e-5  # eV/K
MIN_SET_PROBABILITY = 1e-6  # sets of conformers with a smaller probability are left out


class AverageKind(Enum):
    """The kinds of average over conformers with values x_k, Boltzmann weights w_k and degeneracies d_k."""

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
        multiplicities = self.degeneracies if kind is AverageKind.FREE_ENERGY else self.weights  # d_k or w_k
        factors = boltzmann_factors(values, multiplicities, self.temperature)
        return float(values.min() - BOLTZMANN * self.temperature * np.log(factors.sum()))

    def spread(self, kind: AverageKind, values: Array, found: NDArray[np.int_], embedded: int) -> float:
        """Returns the standard deviation of the average over repeated searches, in the values' unit.

        found: (k,), how often the search found each conformer; embedded: how many conformers it embedded.
        """
        probabilities = set_probabilities(found, embedded)
        probable_sets = np.flatnonzero(probabilities > MIN_SET_PROBABILITY)
        set_numbers = [int(number) for number in probable_sets if number != 0]  # set 0 is empty: it has no average
        averages = []
        for number in set_numbers:
            members = _members(number, len(self.energies))
            subset = ConformerPopulation(self.energies[members], self.degeneracies[members], self.temperature)
            averages.append(subset.average(kind, values[members]))
        set_averages = np.array(averages)
        weights = probabilities[set_numbers]
        mean = np.average(set_averages, weights=weights)
        return float(np.sqrt(np.average((set_averages - mean) ** 2, weights=weights)))


def boltzmann_factors(energies: Array, degeneracies: Array, temperature: float) -> Array:
    """Returns d_k exp(-(E_k - E_lowest) / kT), (k,). temperature: K."""
    factors: Array = degeneracies * np.exp(-(energies - energies.min()) / (BOLTZMANN * temperature))
    return factors


def set_probabilities(found: NDArray[np.int_], embedded: int) -> Array:
    """Returns for each set of the k conformers the probability that a repeated search finds exactly this set, (2^k,).

    found: (k,), how often the search found each conformer; embedded: how many conformers it embedded. A repeated search
    is `embedded` draws with replacement; it may also draw conformers that are not among the k. Bit i of a set's number
    tells whether conformer i is in the set.
    """
    k = len(found)
    set_numbers = np.arange(2**k)
    bits = (set_numbers[:, None] >> np.arange(k)) & 1
    n_others = embedded - int(found.sum())
    # first the probability that none of the k conformers outside the set is drawn
    probabilities: Array = ((bits @ found + n_others) / embedded) ** embedded
    # then, by inclusion and exclusion over the subsets, that every conformer of the set is drawn
    for i in range(k):
        has_conformer = (set_numbers >> i) & 1 == 1
        probabilities[has_conformer] -= probabilities[~has_conformer]
    return np.maximum(probabilities, 0.0)


def _members(number: int, k: int) -> NDArray[np.intp]:
    """Returns the indices of the conformers, of k, in the set with this number."""
    members = []
    for i in range(k):
        is_member = number >> i & 1
        if is_member:
            members.append(i)
    return np.array(members, dtype=np.intp)
