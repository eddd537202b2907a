"""The low conformers of a geometry protocol's search, each once, and Boltzmann averages over them.

The conformers that `geometry.prepare` chooses from are relaxed in GFN2-xTB as it relaxes its one, so that a molecule
with a single conformer has the geometry of `prepare`. Mirror images count as one conformer with two wells, since every
method gives them the same energy.

How far does an average depend on which conformers were found? A search embeds n conformers, of which the k-th was found
c_k times. Another seed finds other ones. The distribution of its set of conformers is estimated by the bootstrap: n
draws with replacement from the n that were found. The average over each possible set is computed, and their standard
deviation is the repeatability of the average. A conformer that was found once is missing from 37 % of the searches, one
that was found ten times from fewer than 0.01 %.

Energies and free energies are in eV, temperatures in K.

Sources: McQuarrie, Statistical Mechanics, 1976, ch. 2; the bootstrap: Efron, Ann. Stat. 7, 1 (1979).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.errors import SimulatorError
from sciagent_simulators.conformers import KCAL, SAME_DISTANCE, SAME_ENERGY, distinct, mirror_smiles, symmetry
from sciagent_simulators.geometry import Geometry
from sciagent_simulators.solvents import Solvation
from sciagent_simulators.starting_geometry import GeometryProtocol, finished, search
from sciagent_simulators.tblite_engine import energies

Array = NDArray[np.float64]

WINDOW = 4.0 * KCAL  # above the lowest in GFN2-xTB
RELAXED_ALIKE = 3 * SAME_ENERGY  # two relaxations end at the same minimum with energies that differ by less


@dataclass(frozen=True, eq=False)
class LowConformers:
    """The k lowest conformers of a molecule, lowest first."""

    geometries: list[Geometry]
    found: NDArray[np.int_]
    """(k,), how many of the embedded conformers ended in each."""
    embedded: int
    """Number of conformers that the search embedded."""
    left_out: int
    """Number of further conformers within WINDOW of the lowest."""


def low_conformers(
    mol: Any, charge: int, multiplicity: int, protocol: GeometryProtocol, seed: int, most: int
) -> tuple[LowConformers, dict[str, Any]]:
    """Returns at most `most` conformers within WINDOW of the lowest in GFN2-xTB, and diagnostics.

    mol: RDKit molecule with defined stereo. protocol: one whose method is gfn2. A conformer that cannot be relaxed or
    changes its bonds is left out. Raises SimulatorError as `geometry.search` does, and the first error of `finished`
    if no conformer is left.
    """
    starts, diagnostics = search(mol, charge, multiplicity, protocol, seed)
    solvation = Solvation(protocol.solvent) if protocol.solvent else None
    alike = replace(symmetry(mol), reflections=is_achiral(mol))
    single = energies(starts, solvation=solvation)
    first, counts = distinct(starts, single, alike)
    relaxed = list[Geometry]()
    occurrences = list[int]()
    problems = list[SimulatorError]()
    for k in first:
        try:
            relaxed.append(finished(mol, starts[k], protocol)[0])
            occurrences.append(counts[k])
        except SimulatorError as error:
            problems.append(error)
    if not relaxed:
        raise problems[0]
    total = energies(relaxed, solvation=solvation)
    kept, found = distinct(relaxed, total, alike, RELAXED_ALIKE, occurrences)
    near = [k for k in kept if total[k] - total.min() <= WINDOW]
    chosen = near[:most]
    low = LowConformers(
        [relaxed[k] for k in chosen], np.array([found[k] for k in chosen]), len(starts), len(near) - len(chosen)
    )
    return low, diagnostics | {"conformers_not_relaxed": len(problems)}


def degeneracies(mol: Any, geometries: list[Geometry], rotations_counted: bool) -> Array:
    """Returns the number of equivalent wells of each conformer, (k,).

    A conformer that differs from its mirror image counts twice, if both belong to one molecule. Wells that differ by a
    permutation of equivalent atoms are counted up to a common factor (`Symmetry.copies`), unless rotations_counted says
    that the energies are free energies with the rotational symmetry number, which counts them.
    """
    alike = symmetry(mol)
    achiral = is_achiral(mol)
    numbers = []
    for geometry in geometries:
        image = geometry.positions * [1.0, 1.0, -1.0]
        two = achiral and alike.distance(image, geometry.positions) >= SAME_DISTANCE
        copies = 1.0 if rotations_counted else alike.copies(geometry.positions, SAME_DISTANCE)
        numbers.append(copies * (2.0 if two else 1.0))
    return np.array(numbers)


def is_achiral(mol: Any) -> bool:
    """Returns whether the molecule is its own mirror image, as an RDKit graph with its stereo."""
    from rdkit import Chem

    return mirror_smiles(mol) == Chem.MolToSmiles(mol)
