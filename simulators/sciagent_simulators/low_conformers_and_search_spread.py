"""The low conformers of a geometry protocol's search, each once, and how far averages depend on the search.

`starting_geometry.prepare` relaxes one of the conformers of a search in GFN2-xTB; here the others are relaxed in the
same way. A molecule with a single conformer therefore has the geometry of `prepare`. Mirror images count as one
conformer with two wells, since every method gives them the same energy.

How far does an average depend on which conformers were found? A search embeds n conformers and finds the k-th distinct
conformer c_k times. A search from another seed finds another set of conformers. The distribution of this set is
estimated by the bootstrap: n draws with replacement from the n embedded conformers. `spread` of a
`conformer_search_and_averages.ConformerPopulation` computes the average over each possible set; their standard
deviation is the repeatability of the average. A conformer that was found once is missing from 37 % of the searches, one
that was found ten times from fewer than 0.01 %.

`spread_over_searches` estimates in the same way how far a value of the lowest conformer scatters. The k-th lowest of n
conformers is the lowest of n draws with the probability ((n - k + 1) / n)^n - ((n - k) / n)^n, k = 1 … n: 0.65, 0.24,
0.08, 0.02, … for n = 10. No random numbers are needed, and the few lowest conformers carry nearly all of the weight. A
conformer that was found often occupies several of the lowest ranks, so that a search that always ends in it has no
spread. How often the spread covers repeated searches: benchmarks/repeatability.

`search_freedom` puts a molecule into one of four classes by what a search has to settle. Molecules of one class scatter
alike over searches, which is known without a second conformer.

Energies and free energies are in eV, temperatures in K.

Sources: McQuarrie, Statistical Mechanics, 1976, ch. 2; the bootstrap: Efron, Ann. Stat. 7, 1 (1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.chemistry.isomers_and_tautomers import mirror_smiles, undefined_stereo
from sciagent.errors import SimulatorError
from sciagent_simulators.conformer_search_and_averages import (
    KCAL,
    SAME_DISTANCE,
    SAME_ENERGY,
    distinct,
    polar_hydrogen_bonds,
    symmetry,
    turning_bonds,
    with_defined_stereo,
)
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation
from sciagent_simulators.starting_geometry import GeometryProtocol, relaxed_by_protocol, search_conformers
from sciagent_simulators.tblite_engine import energies

Array = NDArray[np.float64]

COVERED_PROBABILITY = 0.99  # sum of the probabilities of the ranks of which `spread_over_searches` needs values

WINDOW = 4.0 * KCAL  # eV above the lowest conformer in GFN2-xTB
RELAXED_ALIKE = 3 * SAME_ENERGY  # eV; two relaxations to the same minimum end with energies that differ by less


class SearchFreedom(Enum):
    """The choices that a conformer search makes in a molecule. Of the cases that apply, the last one counts."""

    RIGID = "no turning bonds"
    TURNING = "turning bonds or rings that flip, without OH, SH and NH"
    POLAR = "OH, SH or NH, whose hydrogen bonds decide which conformer is the lowest"
    OPEN = "open stereo of which the search picks one diastereomer"


def search_freedom(mol: Any) -> SearchFreedom:
    """Returns the class of an RDKit molecule. Two enantiomers have the same values, so that they leave nothing open."""
    if undefined_stereo(mol) and with_defined_stereo(mol) is None:
        return SearchFreedom.OPEN
    if polar_hydrogen_bonds(mol) > 0:
        return SearchFreedom.POLAR
    return SearchFreedom.TURNING if turning_bonds(mol) > 0 else SearchFreedom.RIGID


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
    changes its bonds is left out. Raises SimulatorError as `starting_geometry.search_conformers` does, and the first
    error of `relaxed_by_protocol` if no conformer is left.
    """
    starts, diagnostics = search_conformers(mol, charge, multiplicity, protocol, seed)
    solvation = Solvation(protocol.solvent) if protocol.solvent else None
    graph_symmetry = replace(symmetry(mol), reflections=is_achiral(mol))
    start_energies = energies(starts, solvation=solvation)
    distinct_starts, start_counts = distinct(starts, start_energies, graph_symmetry)
    relaxed = list[Geometry]()
    occurrences = list[int]()
    problems = list[SimulatorError]()
    for k in distinct_starts:
        try:
            geometry, _ = relaxed_by_protocol(mol, starts[k], protocol)
        except SimulatorError as error:
            problems.append(error)
        else:
            relaxed.append(geometry)
            occurrences.append(start_counts[k])
    if not relaxed:
        raise problems[0]
    totals = energies(relaxed, solvation=solvation)
    distinct_relaxed, counts = distinct(
        relaxed, totals, graph_symmetry, same_energy=RELAXED_ALIKE, occurrences=occurrences
    )
    near = [k for k in distinct_relaxed if totals[k] - totals.min() <= WINDOW]
    chosen = near[:most]
    low = LowConformers(
        geometries=[relaxed[k] for k in chosen],
        found=np.array([counts[k] for k in chosen]),
        embedded=len(starts),
        left_out=len(near) - len(chosen),
    )
    return low, diagnostics | {"conformers_not_relaxed": len(problems)}


def degeneracies(mol: Any, geometries: list[Geometry], rotations_counted: bool) -> Array:
    """Returns the number of equivalent wells of each conformer, (k,).

    A conformer that differs from its mirror image counts twice, if both belong to one molecule. Wells that differ by a
    permutation of equivalent atoms are counted up to a common factor (`Symmetry.copies`). rotations_counted: the
    energies are free energies with the rotational symmetry number, which already counts such wells; then only mirror
    images are counted here.
    """
    graph_symmetry = symmetry(mol)
    has_mirror_images = is_achiral(mol)
    well_counts = []
    for geometry in geometries:
        n_wells = 1.0
        if not rotations_counted:
            n_wells = graph_symmetry.copies(geometry.positions, SAME_DISTANCE)
        mirror_image = geometry.positions * [1.0, 1.0, -1.0]
        if has_mirror_images and graph_symmetry.distance(mirror_image, geometry.positions) >= SAME_DISTANCE:
            n_wells *= 2.0
        well_counts.append(n_wells)
    return np.array(well_counts)


def is_achiral(mol: Any) -> bool:
    """Returns whether the molecule is its own mirror image, as an RDKit graph with its stereo."""
    from rdkit import Chem

    return mirror_smiles(mol) == Chem.MolToSmiles(mol)


def lowest_probabilities(n: int) -> Array:
    """Returns (n,) the probability that the conformer of each rank is the lowest of n draws with replacement."""
    share_from_rank = np.arange(n, -1, -1) / n  # share of the conformers from each rank up: 1 to 0
    probabilities: Array = share_from_rank[:-1] ** n - share_from_rank[1:] ** n
    return probabilities


def ranks_that_matter(n: int) -> int:
    """Returns how many of the lowest ranks hold 99 % of the probability: 4 of 10."""
    return int(np.searchsorted(np.cumsum(lowest_probabilities(n)), COVERED_PROBABILITY) + 1)


def spread_over_searches(values: Sequence[Array | float | None], n: int) -> float | None:
    """Returns the standard deviation of a value over repeated searches, in the value's unit.

    values: of the lowest conformers by rank, None where there is none; n: conformers of the search. None if the lowest
    conformer or all others have no value.
    """
    known = np.array([value is not None for value in values], dtype=bool)
    # A search with one conformer always ends in it, so that no second value is needed.
    needed = 1 if n == 1 else 2
    if not known[0] or known.sum() < needed:
        return None
    weights = lowest_probabilities(n)[: len(known)][known]
    numbers = np.array([value for value in values if value is not None], dtype=float)
    mean = np.average(numbers, weights=weights)
    return float(np.sqrt(np.average((numbers - mean) ** 2, weights=weights)))
