"""The figures of a search for stable crystals: discoveries call by call, and their comparison with random proposals.

A call is a structure that the oracle was asked about, with or without an answer. A discovery after n calls is an
answered structure that matches neither a given phase nor an earlier novel one (pymatgen's StructureMatcher, on relaxed
cells), and that lies at most TOLERANCE above the hull of the elements, the given phases and all n answers. The hull
moves, so that a discovery may be lost again. With D(n) discoveries after n of N calls and the mean R(n) of the runs of
random proposals,

    mSUN = D(N) / N                                   metastable, unique and novel, for each call
    AUDC = integral of D from 0 to N / (N**2 / 2)     1: each call is a discovery
    EF   = D(N) / R(N)                                at most CAP
    AF   = (calls until R reaches R(N)) / (calls until D reaches R(N)), 0 if it does not

These are the definitions of the code of MADE (src/made/evaluation/metrics.py and envs/convex_hull.py of
github.com/diffractivelabs/MADE at 496d6c9), with one difference: there cells are compared as they were proposed.

Source: Malik et al., MADE, arXiv 2601.20996 (2026).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

TOLERANCE = 0.1
"""Largest energy above the hull of a metastable crystal, eV/atom."""
CAP = 100.0
"""Largest enhancement factor."""
RANDOM = "random"
"""Name of the proposer with which others are compared."""
LENGTH_TOLERANCE = 0.2
"""Relative difference of lattice vectors of matching cells."""
SITE_TOLERANCE = 0.3
"""Displacement of atoms of matching cells, in cube roots of the volume per atom."""
ANGLE_TOLERANCE = 5.0
"""Difference of the angles of matching cells, in degrees."""


@dataclass(frozen=True)
class OracleAnswer:
    """A structure that the oracle was asked about."""

    key: str
    """Key of the candidate."""
    text: str
    """Reduced formula and space group, as proposed."""
    formation_energy: float | None = None
    """Against the elements, eV/atom; None if the oracle has no answer."""
    structure: Any = None
    """The relaxed cell as a pymatgen Structure; None if the oracle has no answer."""


@dataclass(frozen=True)
class Discovery:
    """A novel structure that is metastable after the last call."""

    text: str
    """Reduced formula and space group, as proposed."""
    call: int
    """Number of the call, from 1."""
    above_hull: float
    """Energy above the hull after the last call, eV/atom."""


@dataclass(frozen=True)
class DiscoveryCurve:
    """The discoveries of a run."""

    counts: tuple[int, ...]
    """Number of discoveries after each call."""
    novel: int
    """Number of structures that match neither a given phase nor an earlier one, metastable or not."""
    discoveries: tuple[Discovery, ...]
    """Those after the last call, in the order of their calls."""


class MovingHull:
    """The convex hull of formation energies of a chemical system, which sinks as structures are added."""

    def __init__(self, elements: Iterable[str]) -> None:
        from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
        from pymatgen.core import Composition

        self._entries = [PDEntry(Composition(symbol), 0.0) for symbol in elements]
        self._diagram = PhaseDiagram(self._entries)

    def add(self, answer: OracleAnswer) -> None:
        """Adds an answered structure. Elements stay at 0."""
        from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram

        composition = answer.structure.composition
        if answer.formation_energy is None or len(composition) == 1 or self.above(answer) >= 0:
            return  # the hull stays as it is
        self._entries.append(PDEntry(composition, answer.formation_energy * composition.num_atoms))
        self._diagram = PhaseDiagram(self._entries)

    def above(self, answer: OracleAnswer) -> float:
        """Returns the energy above the hull, eV/atom; negative for a structure below it, which was not added."""
        assert answer.formation_energy is not None
        hull_energy = self._diagram.get_hull_energy_per_atom(answer.structure.composition)
        return answer.formation_energy - float(hull_energy)


def discovery_curve(
    elements: Sequence[str], given: Sequence[OracleAnswer], calls: Sequence[OracleAnswer]
) -> DiscoveryCurve:
    """Returns the discoveries of a run. given: known phases, which count for the hull and are not novel. calls: in
    their order."""
    hull = MovingHull(elements)
    known = []
    for phase in given:
        if phase.structure is not None:
            hull.add(phase)
            known.append(phase.structure)
    novel: list[tuple[int, OracleAnswer]] = []
    counts = []
    for number, answer in enumerate(calls, start=1):
        if answer.structure is not None:
            hull.add(answer)
            if not _matches_any(answer.structure, known):
                known.append(answer.structure)
                novel.append((number, answer))
        counts.append(sum(is_metastable(hull.above(each)) for _, each in novel))
    discoveries = []
    for number, answer in novel:
        above = hull.above(answer)
        if is_metastable(above):
            discoveries.append(Discovery(answer.text, number, max(0.0, above)))
    return DiscoveryCurve(tuple(counts), len(novel), tuple(discoveries))


def is_metastable(above_hull: float) -> bool:
    """Returns whether a crystal with this energy above the hull, eV/atom, is metastable."""
    return above_hull <= TOLERANCE + 1e-9


def _matches_any(structure: Any, others: Sequence[Any]) -> bool:
    """Returns whether a relaxed cell matches another one, of any volume."""
    from pymatgen.core.structure_matcher import StructureMatcher

    matcher = StructureMatcher(ltol=LENGTH_TOLERANCE, stol=SITE_TOLERANCE, angle_tol=ANGLE_TOLERANCE)
    formula = structure.composition.reduced_formula
    same_formula = [other for other in others if other.composition.reduced_formula == formula]
    return any(matcher.fit(structure, other) for other in same_formula)


def padded(counts: Sequence[int], calls: int) -> list[int]:
    """Returns the counts of a run from 0 to `calls`; one that ended early goes on with its last count."""
    kept = [0, *counts[:calls]]
    return kept + [kept[-1]] * (calls + 1 - len(kept))


def area(counts: Sequence[int], calls: int) -> float:
    """Returns the normalised area under the discovery curve (AUDC). counts: after each call."""
    total = sum((before + after) / 2 for before, after in pairwise(padded(counts, calls)))
    return total / (calls**2 / 2)


def mean_curve(runs: Sequence[Sequence[int]], calls: int) -> list[float]:
    """Returns the mean number of discoveries of several runs, after 0 to `calls` calls."""
    return [fmean(column) for column in zip(*(padded(counts, calls) for counts in runs), strict=True)]


def enhancement(counts: Sequence[int], baseline: Sequence[float], calls: int) -> float:
    """Returns the enhancement factor (EF): discoveries over those of random proposals, after the last call.

    baseline: `mean_curve` of the random proposals.
    """
    return min(padded(counts, calls)[-1] / max(baseline[-1], 1e-8), CAP)


def acceleration(counts: Sequence[int], baseline: Sequence[float], calls: int) -> float:
    """Returns the acceleration factor (AF): how many times sooner a run has as many discoveries as random proposals
    have in the end; 0 if it never has. baseline: `mean_curve` of the random proposals."""
    target = baseline[-1]
    if target == 0:
        return 1.0  # both have them from the start
    own = _reached(padded(counts, calls), target)
    return 0.0 if own is None else (_reached(baseline, target) or 0) / own


def _reached(curve: Sequence[float], target: float) -> int | None:
    """Returns the first number of calls with as many discoveries as the target; None without one."""
    return next((n for n, count in enumerate(curve) if count >= target), None)


@dataclass(frozen=True)
class DiscoveryRun:
    """A run of a proposer in a chemical system, in the order of the calls."""

    system: str
    """Elements, as in `Al-Li-V`."""
    proposer: str
    seed: int
    campaign: str
    """Name of the campaign."""
    failures: int
    """Calls without an answer."""
    core_seconds: float
    """Computing time of its verifications and its proposer. An answer for which another campaign of the ledger has paid
    costs nothing."""
    curve: DiscoveryCurve


@dataclass(frozen=True)
class SystemFigures:
    """The figures of a proposer in a chemical system, by seed."""

    system: str
    calls: tuple[int, ...]
    """Calls of each run."""
    failures: tuple[int, ...]
    """Calls without an answer."""
    core_seconds: tuple[float, ...]
    """Computing time of the verifications and the proposer, for each seed."""
    novel: tuple[int, ...]
    """Structures unlike all that were known, metastable or not."""
    discovered: tuple[int, ...]
    """Discoveries after the last call."""
    msun: tuple[float, ...]
    """Discoveries for each call that was allowed."""
    audc: tuple[float, ...]
    """Normalised area under the discovery curve."""
    enhancement: tuple[float, ...] | None
    """Enhancement factor; None without runs of random proposals."""
    acceleration: tuple[float, ...] | None
    """Acceleration factor; None without runs of random proposals."""
    curves: tuple[DiscoveryCurve, ...]


def figures(runs: Iterable[DiscoveryRun], calls: int) -> Mapping[str, list[SystemFigures]]:
    """Returns the figures of each proposer, by system in the order of the runs. calls: that each run was allowed."""
    grouped: dict[str, dict[str, list[DiscoveryRun]]] = {}
    for run in runs:
        grouped.setdefault(run.proposer, {}).setdefault(run.system, []).append(run)
    baselines = {}
    for system, of_system in grouped.get(RANDOM, {}).items():
        baselines[system] = mean_curve([run.curve.counts for run in of_system], calls)
    found: dict[str, list[SystemFigures]] = {}
    for proposer, by_system in grouped.items():
        found[proposer] = [_of_system(of_system, baselines.get(name), calls) for name, of_system in by_system.items()]
    return found


def _of_system(runs: Sequence[DiscoveryRun], baseline: Sequence[float] | None, calls: int) -> SystemFigures:
    curves = tuple(run.curve for run in runs)
    counts = [curve.counts for curve in curves]
    discovered = tuple(padded(each, calls)[-1] for each in counts)
    factors: tuple[tuple[float, ...] | None, tuple[float, ...] | None] = (None, None)
    if baseline is not None:
        factors = (
            tuple(enhancement(each, baseline, calls) for each in counts),
            tuple(acceleration(each, baseline, calls) for each in counts),
        )
    return SystemFigures(
        system=runs[0].system,
        calls=tuple(map(len, counts)),
        failures=tuple(run.failures for run in runs),
        core_seconds=tuple(run.core_seconds for run in runs),
        novel=tuple(curve.novel for curve in curves),
        discovered=discovered,
        msun=tuple(n / calls for n in discovered),
        audc=tuple(area(each, calls) for each in counts),
        enhancement=factors[0],
        acceleration=factors[1],
        curves=curves,
    )
