"""Conformers of a molecule in GFN2-xTB: where they lie, how many are alike, how they are populated.

ETKDGv3 conformers are relaxed in the force field, those too high there are dropped, the rest is ranked by GFN2-xTB
single points; what lies within the window and a margin is relaxed in GFN2-xTB, what became another molecule is dropped,
and what is the same conformer twice is kept once. A molecule that is its own mirror image gets the mirror image of each
conformer where that differs: gauche butane counts twice whether or not both were sampled. A conformer's weight
counts the wells that differ only in which of the like atoms lies where (anti-gauche pentane has two).

Energies are electronic (in a solvent with the free energy of solvation); vibrations and rotations are left out.

Sources: how many to embed: Ebejer, Morris, Deane, J. Chem. Inf. Model. 52, 1146 (2012). Energy, rotational constants
and root mean square distance as the three criteria: CREST: Pracht, Bohle, Grimme, PCCP 22, 7169 (2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes import Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry import Geometry, bonds_of, check_bonds, embed, failure
from sciagent_simulators.implicit_solvent import Solvation
from sciagent_simulators.superpose import Symmetry, principal_moments, symmetry
from sciagent_simulators.tblite_engine import XtbResult, energies, relax

Array = NDArray[np.float64]

KCAL = 0.0433641  # eV per kcal/mol
BOLTZMANN = 8.617333262e-5  # eV/K
FORCE_FIELD_WINDOW = 15.0  # kcal/mol; MMFF94 misplaces hydrogen-bonded conformers by up to about ten
MARGIN = 3.0 * KCAL  # what a relaxation may still bring down, on top of the window

# Two conformers are the same when all three hold. fmax leaves 0.002 eV and 0.05 angstrom open.
SAME_ENERGY = 0.1 * KCAL
SAME_MOMENTS = 0.02  # relative
SAME_DISTANCE = 0.25  # angstrom
FMAX = 0.03  # eV/angstrom


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The n conformers of a molecule, lowest first."""

    geometries: list[Geometry]
    energies: Array
    """(n,), eV."""
    dipoles: Array
    """(n,), debye."""
    copies: Array
    """(n,), equivalent wells of each conformer."""
    mirror: NDArray[np.bool_]
    """(n,), which conformers are mirror images that were added and not sampled."""

    def weights(self, temperature: float) -> Array:
        """Boltzmann weights, (n,), summing to 1. temperature: K."""
        factors = self._factors(temperature)
        weights: Array = factors / factors.sum()
        return weights

    def free_energy(self, temperature: float) -> float:
        """-kT ln of the sum of Boltzmann factors over the lowest conformer's, eV; 0 for a single conformer."""
        factors = self._factors(temperature)
        return 0.0 - float(BOLTZMANN * temperature * np.log(factors.sum() / factors[0]))

    def dipole(self, temperature: float) -> float:
        """Root mean square dipole, debye, which is what a dielectric constant measures."""
        return float(np.sqrt(self.weights(temperature) @ self.dipoles**2))

    def _factors(self, temperature: float) -> Array:
        factors: Array = self.copies * np.exp(-(self.energies - self.energies[0]) / (BOLTZMANN * temperature))
        return factors

    def to_xyz(self, temperature: float) -> str:
        """All structures as extended XYZ: energy in eV, Boltzmann weight, and kcal/mol above the lowest."""
        above = (self.energies - self.energies[0]) / KCAL
        return "".join(
            geometry.to_xyz(f"energy={energy:.6f} relative_kcal_mol={relative:.3f} weight={weight:.5f}")
            for geometry, energy, relative, weight in zip(
                self.geometries, self.energies, above, self.weights(temperature), strict=True
            )
        )


def how_many(mol: Any) -> int:
    """Conformers to embed: 10 for what cannot turn, then 50, 100, 200, 300 up to 2, 5, 9 and more bonds that can.

    Counted are rotatable bonds, those to OH, SH and NH, and half of the saturated bonds in rings. (The source counts
    the first alone, and takes 50 up to 7 and 200 up to 12 of them.)
    """
    from rdkit import Chem
    from rdkit.Chem.rdMolDescriptors import CalcNumRotatableBonds

    polar = Chem.MolFromSmarts("[OX2H1,SX2H1,NX3;H1,H2;!$(NC=[O,S,N])]-[!#1]")
    ring = Chem.MolFromSmarts("[CX4,OX2,NX3,SX2]-;@[CX4]")
    turning = CalcNumRotatableBonds(mol) + len(mol.GetSubstructMatches(polar))
    turning += len(mol.GetSubstructMatches(ring)) // 2
    return next(n for most, n in ((0, 10), (2, 50), (5, 100), (9, 200), (10**6, 300)) if turning <= most)


def resolved(mol: Any) -> Any | None:
    """The molecule with its stereo defined, if what is undefined leaves a single molecule or it and its mirror image.

    None where it leaves diastereomers, whose ensembles must not be mixed.
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
    """The conformers within `window` (eV) of the lowest, and how they were reached.

    mol: RDKit molecule with its stereo defined. embedded: how many, or None for `how_many`. most_relaxed: of the lowest
    single points. Diagnostics: counts at each stage; `found_once`, the share of embeddings that led to a conformer
    of the force field that no other led to, which estimates how likely the next would be new (Good and Turing).
    Raises SimulatorError as `embed` and `relax`, and unstable (bond_changed) where no conformer keeps its bonds.
    """
    from rdkit import Chem

    wanted = embedded or how_many(mol)
    starts, diagnostics, force_field = embed(mol, charge, multiplicity, wanted, seed)
    alike = symmetry(mol)
    near = [k for k in range(len(starts)) if force_field[k] - force_field[0] <= FORCE_FIELD_WINDOW]
    kept, occurs = distinct([starts[k] for k in near], force_field[near] * KCAL, alike)
    single = energies([starts[near[k]] for k in kept], solvation=solvation)
    order = [int(k) for k in np.argsort(single, kind="stable") if single[k] - single.min() <= window + MARGIN]
    relaxed, failed = _relaxed([starts[near[kept[k]]] for k in order[:most_relaxed]], bonds_of(mol), solvation)
    total = np.array([result.energy for _, result in relaxed])
    places, _ = distinct([geometry for geometry, _ in relaxed], total, alike)
    places = [k for k in places if total[k] - total.min() <= window]
    mirrored = mirror_smiles(mol) == Chem.MolToSmiles(mol)
    ensemble = _assembled([relaxed[k] for k in places], alike, mirrored)
    return ensemble, diagnostics | {
        "after_force_field": len(kept),
        "relaxed": len(relaxed),
        "not_relaxed": max(0, len(order) - most_relaxed),
        "failed": failed,
        "distinct": len(places),
        "mirror_images": int(ensemble.mirror.sum()),
        "found_once": round(sum(n == 1 for n in occurs.values()) / len(near), 3),
        "symmetry_complete": alike.complete,
    }


def distinct(geometries: list[Geometry], values: Array, alike: Symmetry) -> tuple[list[int], dict[int, int]]:
    """Indices of a geometry for each conformer, the lowest of its kind, by rising value; and how often it occurs.

    values: (n,), eV. Only pairs within SAME_ENERGY are superposed.
    """
    from ase.data import atomic_masses

    masses = np.array(atomic_masses)[list(geometries[0].numbers)]
    moments = np.array([principal_moments(masses, geometry.positions) for geometry in geometries])
    scale = np.maximum(moments.max(axis=1), 1e-6)
    kept: list[int] = []
    counts: dict[int, int] = {}
    for k in (int(i) for i in np.argsort(values, kind="stable")):
        same = (
            other
            for other in reversed(kept)
            if values[k] - values[other] <= SAME_ENERGY
            and np.abs(moments[k] - moments[other]).max() <= SAME_MOMENTS * scale[other]
            and alike.distance(geometries[k].positions, geometries[other].positions) < SAME_DISTANCE
        )
        if (first := next(same, None)) is None:
            kept.append(k)
            counts[k] = 1
        else:
            counts[first] += 1
    return kept, counts


def _relaxed(
    starts: list[Geometry], bonds: list[tuple[int, int]], solvation: Solvation | None
) -> tuple[list[tuple[Geometry, XtbResult]], dict[str, int]]:
    """Relaxed conformers that are still the molecule, and how many failed for which reason."""
    relaxed: list[tuple[Geometry, XtbResult]] = []
    failed: dict[str, int] = {}
    problem: SimulatorError | None = None
    for start in starts:
        try:
            geometry, result = relax(start, fmax=FMAX, solvation=solvation)
            check_bonds(geometry, bonds)
            relaxed.append((geometry, result))
        except SimulatorError as error:
            problem = problem or error
            failed[error.reason] = failed.get(error.reason, 0) + 1
    if not relaxed:
        raise problem or failure(Reason.GEOMETRY_NOT_CONVERGED, "no conformer to relax")
    return relaxed, failed


def _assembled(relaxed: list[tuple[Geometry, XtbResult]], alike: Symmetry, mirrored: bool) -> Ensemble:
    """The ensemble, with the mirror images that are further conformers and were not sampled."""
    geometries = [geometry for geometry, _ in relaxed]
    values = [result.energy for _, result in relaxed]
    dipoles = [result.dipole for _, result in relaxed]
    mirror = [False] * len(relaxed)
    for k in range(len(relaxed) if mirrored else 0):
        image = geometries[k].moved(geometries[k].positions * [1.0, 1.0, -1.0])
        rivals = [j for j in range(len(relaxed)) if abs(values[j] - values[k]) <= SAME_ENERGY]
        if all(alike.distance(image.positions, geometries[j].positions) >= SAME_DISTANCE for j in rivals):
            geometries.append(image)
            values.append(values[k])
            dipoles.append(dipoles[k])
            mirror.append(True)
    order = np.argsort(values, kind="stable")
    copies = [alike.copies(geometries[k].positions, SAME_DISTANCE) for k in order]
    return Ensemble(
        [geometries[k] for k in order],
        np.array(values)[order],
        np.array(dipoles)[order],
        np.array(copies),
        np.array(mirror)[order],
    )
