"""Boltzmann averages of a density functional's values over the low conformers of a molecule.

The conformers are those of the search from which the geometry comes (`low_conformers`). Each is computed in full at the
verifier's own level, and weighted there by its energy, or by its free energy where the verifier computes one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from sciagent.domain.evidence import Measured
from sciagent.domain.properties import DIPOLE, GIBBS_FREE_ENERGY, SOLVATION_ENERGY
from sciagent.domain.quantities import Censoring
from sciagent.verification.contract import Finding
from sciagent_simulators.boltzmann import AverageKind, ConformerPopulation
from sciagent_simulators.conformers import KCAL, distinct, symmetry
from sciagent_simulators.geometry import Geometry, GeometryProtocol
from sciagent_simulators.low_conformers import RELAXED_ALIKE, degeneracies, is_achiral

ROOM_TEMPERATURE = 298.15  # K
KINDS = {
    DIPOLE.name: AverageKind.ROOT_MEAN_SQUARE,
    GIBBS_FREE_ENERGY.name: AverageKind.FREE_ENERGY,
    SOLVATION_ENERGY.name: AverageKind.FREE_ENERGY_CHANGE,
}
"""The kind of average of some properties; all others get the mean."""


# Left at their defaults both are left out of the settings hash, so that evidence older than they keeps its keys.
Average = Literal["boltzmann"]
AVERAGE: Average | None = Field(
    None,
    exclude_if=lambda value: value is None,
    description="`boltzmann`: values are averages over the low conformers of the search, each computed in full and "
    "weighted by its energy at this level; unset: values of the conformer that is lowest in GFN2-xTB.",
)
MOST = 5
AVERAGE_CONFORMERS: int = Field(
    MOST,
    ge=2,
    le=12,
    exclude_if=lambda value: value == MOST,
    description="Over how many conformers an average is at most, the lowest in GFN2-xTB first.",
)


def average_fault(average: Average | None, most: int, geometry: GeometryProtocol) -> str | None:
    """Returns what is wrong with the settings of an average, or None."""
    if average is None:
        return "average_conformers has no effect without average: boltzmann" if most != MOST else None
    if geometry.method != "gfn2":
        return "the conformers of an average are chosen by GFN2-xTB: geometry: {method: gfn2}"
    if geometry.conformers == 1:
        return "geometry: {conformers: 1} leaves nothing to average; embed 10 or more"
    return None


@dataclass(frozen=True, eq=False)
class ComputedConformer:
    """The result of a verifier on one conformer."""

    geometry: Geometry
    finding: Finding
    energy: float
    """The energy, or free energy, that decides the weight, eV."""
    found: int
    """Number of the embedded conformers that relaxed to it."""


@dataclass(frozen=True, eq=False)
class ConformerAverage:
    """The averaged values of a molecule and what they rest on."""

    rows: tuple[Measured, ...]
    diagnostics: dict[str, Any]
    structures: str
    """The geometries as XYZ, each with its relative energy and weight."""
    note: str
    """Returns a sentence on the values that are missing because a conformer lacks them; empty if none is."""
    lowest: ComputedConformer
    """The conformer with the lowest energy at this level."""


def conformer_average(
    mol: Any, computed: Sequence[ComputedConformer], embedded: int, temperature: float, rotations_counted: bool
) -> ConformerAverage:
    """Returns the averages over the conformers.

    mol: RDKit molecule with defined stereo. rotations_counted: whether the energies have rotational symmetry numbers.
    Conformers that became one by the relaxation at the verifier's level count once. The uncertainty of a value combines
    that of one conformer with how far the average changes with the conformers that a search finds.
    """
    alike = replace(symmetry(mol), reflections=is_achiral(mol))
    energies = np.array([one.energy for one in computed])
    kept, found = distinct(
        [one.geometry for one in computed], energies, alike, RELAXED_ALIKE, [one.found for one in computed]
    )
    members = [computed[k] for k in kept]
    wells = degeneracies(mol, [one.geometry for one in members], rotations_counted)
    population = ConformerPopulation(energies[kept], wells, temperature)
    counts = np.array([found[k] for k in kept])
    rows, missing = [], []
    for row in members[0].finding.measured:
        all_rows = [own for one in members for own in one.finding.measured if own.property == row.property]
        if len(all_rows) == len(members):
            rows.append(_averaged(all_rows, population, counts, embedded))
        else:
            missing.append(row.property)
    above = (population.energies - population.energies[0]) / KCAL
    table = [
        {"weight": round(float(w), 4), "relative_kcal_mol": round(float(e), 3), "wells": float(d), "found": int(n)}
        for w, e, d, n in zip(population.weights, above, wells, counts, strict=True)
    ]
    structures = "".join(
        one.geometry.to_xyz(f"relative_kcal_mol={facts['relative_kcal_mol']:.3f} weight={facts['weight']:.4f}")
        for one, facts in zip(members, table, strict=True)
    )
    facts = {"conformers": table, "temperature": temperature, "embedded": embedded}
    note = f"not every conformer has {', '.join(missing)}" if missing else ""
    return ConformerAverage(tuple(rows), facts, structures, note, members[0])


def _averaged(rows: Sequence[Measured], population: ConformerPopulation, found: Any, embedded: int) -> Measured:
    """Returns the average of one property. A censored value counts with its limit, and makes the average a limit."""
    values = np.array([row.quantity.value for row in rows])
    kind = KINDS.get(rows[0].property, AverageKind.MEAN)
    value = population.average(kind, values)
    censored = next((row.quantity.censoring for row in rows if row.quantity.censoring != Censoring.NONE), None)
    if censored is not None:
        return replace(rows[0], quantity=replace(rows[0].quantity, value=value, censoring=censored, uncertainty=None))
    of_one = max(row.quantity.uncertainty or 0.0 for row in rows)
    uncertainty = math.hypot(of_one, population.spread(kind, values, found, embedded))
    return replace(rows[0], quantity=replace(rows[0].quantity, value=value, uncertainty=uncertainty))
