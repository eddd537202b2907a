"""Boltzmann averages of a density functional's values over the low conformers of a molecule.

The geometry of a molecule comes from a search; the conformers of an average come from the same search
(`low_conformers_and_search_spread`). Each conformer is computed in full at the verifier's own level. Its weight follows
from its energy at this level, or from its free energy if the verifier computes one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import MOLECULE, UNCERTAINTY_KIND, ArtifactFile, Measured
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import DIPOLE, GIBBS_FREE_ENERGY, SOLVATION_ENERGY
from sciagent.domain.quantities import Censoring
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import Context, Finding, Property, Reason, Refusal
from sciagent_simulators.conformer_search_and_averages import (
    KCAL,
    AverageKind,
    ConformerPopulation,
    distinct,
    n_conformers_to_embed,
    symmetry,
    with_defined_stereo,
)
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.low_conformers_and_search_spread import RELAXED_ALIKE, degeneracies, is_achiral, low_conformers
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare
from sciagent_verifiers.verifier_bases import Calculation, Spread

ROOM_TEMPERATURE = 298.15  # K
KINDS = {
    DIPOLE.name: AverageKind.ROOT_MEAN_SQUARE,
    GIBBS_FREE_ENERGY.name: AverageKind.FREE_ENERGY,
    SOLVATION_ENERGY.name: AverageKind.FREE_ENERGY_CHANGE,
}
"""The kind of average of some properties; all others get the mean."""


Average = Literal["boltzmann"]
AVERAGE: Average | None = omitted_if_unset(
    None,
    description="`boltzmann`: values are averages over the low conformers of the search, each computed in full and "
    "weighted by its energy at this level; unset: values of the conformer that is lowest in GFN2-xTB.",
)
DEFAULT_CONFORMERS = 5
AVERAGE_CONFORMERS: int = omitted_if_unset(
    DEFAULT_CONFORMERS,
    ge=2,
    le=12,
    description="Over how many conformers an average is at most, the lowest in GFN2-xTB first.",
)


def average_fault(average: Average | None, max_conformers: int, geometry: GeometryProtocol) -> str | None:
    """Returns what is wrong with the settings of an average, or None."""
    if average is None:
        if max_conformers != DEFAULT_CONFORMERS:
            return "average_conformers has no effect without average: boltzmann"
        return None
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
    """The averaged values of a molecule, and the conformers from which they come."""

    rows: tuple[Measured, ...]
    diagnostics: dict[str, Any]
    structures: str
    """The geometries as XYZ, each with its relative energy and weight."""
    note: str
    """A sentence on the values that are missing because a conformer lacks them; empty if no value is missing."""
    lowest: ComputedConformer
    """The conformer with the lowest energy at this level."""


def conformer_average(
    mol: Any, computed: Sequence[ComputedConformer], embedded: int, temperature: float, rotations_counted: bool
) -> ConformerAverage:
    """Returns the averages over the conformers.

    mol: RDKit molecule with defined stereo. embedded: number of conformers that the search embedded. temperature: K.
    rotations_counted: whether the energies contain rotational symmetry numbers.
    Conformers that became one by the relaxation at the verifier's level count once. The uncertainty of a value combines
    the uncertainty of one conformer with how far the average changes with the conformers that a search finds.
    """
    graph_symmetry = replace(symmetry(mol), reflections=is_achiral(mol))
    energies = np.array([conformer.energy for conformer in computed])
    geometries = [conformer.geometry for conformer in computed]
    occurrences = [conformer.found for conformer in computed]
    indices, count_by_index = distinct(
        geometries, energies, graph_symmetry, same_energy=RELAXED_ALIKE, occurrences=occurrences
    )
    members = [computed[k] for k in indices]
    wells = degeneracies(mol, [member.geometry for member in members], rotations_counted)
    population = ConformerPopulation(energies[indices], wells, temperature)
    counts = np.array([count_by_index[k] for k in indices])
    rows = []
    missing = []
    for row in members[0].finding.measured:
        member_rows = _rows_of_property(members, row.property)
        if len(member_rows) == len(members):
            rows.append(_averaged(member_rows, population, counts, embedded))
        else:
            missing.append(row.property)
    relative = (population.energies - population.energies[0]) / KCAL
    table = []
    for weight, energy, n_wells, n_found in zip(population.weights, relative, wells, counts, strict=True):
        entry = {
            "weight": round(float(weight), 4),
            "relative_kcal_mol": round(float(energy), 3),
            "wells": float(n_wells),
            "found": int(n_found),
        }
        table.append(entry)
    structures = ""
    for member, entry in zip(members, table, strict=True):
        comment = f"relative_kcal_mol={entry['relative_kcal_mol']:.3f} weight={entry['weight']:.4f}"
        structures += member.geometry.to_xyz(comment)
    facts = {"conformers": table, "temperature": temperature, "embedded": embedded}
    note = f"not every conformer has {', '.join(missing)}" if missing else ""
    return ConformerAverage(tuple(rows), facts, structures, note, lowest=members[0])


def _rows_of_property(members: Sequence[ComputedConformer], name: str) -> list[Measured]:
    """Returns the values of one property of all conformers that have it."""
    rows = []
    for member in members:
        for row in member.finding.measured:
            if row.property == name:
                rows.append(row)
    return rows


def _averaged(rows: Sequence[Measured], population: ConformerPopulation, counts: Any, embedded: int) -> Measured:
    """Returns the average of one property. A censored value counts with its limit, and makes the average a limit.

    counts: (n,), how many of the `embedded` conformers became each conformer."""
    values = np.array([row.quantity.value for row in rows])
    kind = KINDS.get(rows[0].property, AverageKind.MEAN)
    value = population.average(kind, values)
    quantity = replace(rows[0].quantity, value=value)
    censorings = [row.quantity.censoring for row in rows if row.quantity.censoring != Censoring.NONE]
    if censorings:
        return replace(rows[0], quantity=replace(quantity, censoring=censorings[0], uncertainty=None))
    of_one_conformer = max(row.quantity.uncertainty or 0.0 for row in rows)
    uncertainty = math.hypot(of_one_conformer, population.spread(kind, values, counts, embedded))
    return replace(rows[0], quantity=replace(quantity, uncertainty=uncertainty))


class ConformerCalculation(Calculation):
    """A verifier whose settings have `geometry`, `average`, `average_conformers` and `average_temperature`.

    Subclasses compute one geometry. With `average: boltzmann` they compute each low conformer in full. If one of these
    calculations fails, the finding fails: an average without that conformer would be wrong.
    """

    rotations_counted: ClassVar[bool] = False
    """Whether the energies that weight conformers are free energies with the rotational symmetry number."""

    @abstractmethod
    def at_geometry(self, molecule: Molecule, context: Context, start: Geometry) -> tuple[Finding, Geometry, float]:
        """Returns the finding from this first geometry, the geometry where it holds, and the energy that weights it.

        The energy is in eV. Raises SimulatorError."""

    def accepts(self, candidate: Molecule) -> Refusal | None:
        if self.settings.average and with_defined_stereo(candidate.mol) is None:
            detail = "leaves diastereomers open, each with its own conformers; define its centres and double bonds"
            return Refusal(Reason.UNDEFINED_STEREO, f"{candidate.smiles} {detail}")
        return super().accepts(candidate)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        if self.settings.average:
            return self._averaged(molecule, context)
        seed = self.settings.geometry.seed(molecule.key, context.replicate)
        geometry, facts = prepare(molecule.mol, molecule.charge, molecule.multiplicity, self.settings.geometry, seed)
        finding, _, _ = self.at_geometry(molecule, context, geometry)
        return replace(finding, diagnostics={**facts, **finding.diagnostics})

    def spread_of_molecule(self, values: Mapping[Property, float | None]) -> Spread | None:
        """Returns 0 for a conformer of an average, which repeats like a rigid molecule; the search enters later."""
        return dict.fromkeys(values, 0.0) if self.settings.average else None

    def calculations(self, candidate: Molecule) -> float:
        """Returns how many conformers will be computed, an estimate: 1 without an average or without turning bonds."""
        if not self.settings.average:
            return 1
        is_flexible = n_conformers_to_embed(candidate.mol) > 10  # 10 are embedded without turning bonds
        return self.settings.average_conformers if is_flexible else 1

    def _averaged(self, molecule: Molecule, context: Context) -> Finding:
        """Returns the finding with the averages over the low conformers. Raises SimulatorError."""
        chosen = self.settings
        mol = with_defined_stereo(molecule.mol)  # `accepts` has refused molecules for which this is None
        seed = chosen.geometry.seed(molecule.key, context.replicate)
        low, facts = low_conformers(
            mol, molecule.charge, molecule.multiplicity, chosen.geometry, seed, chosen.average_conformers
        )
        computed = []
        for k, start in enumerate(low.geometries):
            finding, geometry, energy = self._conformer(molecule, context, start, number=k + 1)
            computed.append(ComputedConformer(geometry, finding, energy, found=int(low.found[k])))
        temperature = chosen.average_temperature
        average = conformer_average(
            mol, computed, embedded=low.embedded, temperature=temperature, rotations_counted=self.rotations_counted
        )
        lowest = average.lowest.finding
        file = context.scratch / f"{molecule.key[:16]}-conformers.xyz"
        file.write_text(average.structures, encoding="utf-8")
        artifacts = (*lowest.artifacts, ArtifactFile(file.name, str(file), "chemical/x-xyz"))
        kinds = {row.property: MOLECULE for row in average.rows}
        average_facts: dict[str, Any] = {**average.diagnostics, "left_out": low.left_out}
        facts |= {**lowest.diagnostics, UNCERTAINTY_KIND: kinds, "average": average_facts}
        notes = [lowest.detail, average.note]
        if low.left_out:
            notes.append(f"{low.left_out} more conformers within 4 kcal/mol by GFN2-xTB are not in the average")
        detail = "; ".join(note for note in notes if note)
        return replace(lowest, measured=average.rows, diagnostics=facts, detail=detail, artifacts=artifacts)

    def _conformer(
        self, molecule: Molecule, context: Context, start: Geometry, number: int
    ) -> tuple[Finding, Geometry, float]:
        """Returns the result on one conformer, in folders of its own. Raises SimulatorError that names it."""
        name = f"conformer-{number}"
        conformer_context = replace(context, scratch=context.scratch / name, checkpoint=context.checkpoint / name)
        for folder in (conformer_context.scratch, conformer_context.checkpoint):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            return self.at_geometry(molecule, conformer_context, start)
        except SimulatorError as error:
            raise SimulatorError(error.outcome, error.reason, f"{name}: {error.detail}", **error.diagnostics) from error
