"""The base class of verifiers that compute one geometry, or the low conformers of a molecule and their averages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence import MOLECULE, UNCERTAINTY_KIND, ArtifactFile
from sciagent.errors import SimulatorError
from sciagent.verification.contract import Context, Finding, Property, Reason, Refusal
from sciagent_simulators.conformers import how_many, resolved
from sciagent_simulators.geometry import Geometry, prepare
from sciagent_simulators.low_conformers import low_conformers
from sciagent_verifiers.base import Calculation, Spread
from sciagent_verifiers.high_fidelity.conformer_average import ComputedConformer, conformer_average


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
        if self.settings.average and resolved(candidate.mol) is None:
            detail = "leaves diastereomers open, each with conformers of its own; define its stereocentres"
            return Refusal(Reason.UNDEFINED_STEREO, f"{candidate.smiles} {detail}")
        return super().accepts(candidate)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        if self.settings.average:
            return self._averaged(molecule, context)
        seed = self.settings.geometry.seed(molecule.key, context.replicate)
        graph = molecule.mol, molecule.charge, molecule.multiplicity
        geometry, facts = prepare(*graph, self.settings.geometry, seed)
        found, _, _ = self.at_geometry(molecule, context, geometry)
        return replace(found, diagnostics={**facts, **found.diagnostics})

    def own_spread(self, values: Mapping[Property, float | None]) -> Spread | None:
        """Returns 0 for a conformer of an average, which repeats like a rigid molecule; the search enters later."""
        return dict.fromkeys(values, 0.0) if self.settings.average else None

    def calculations(self, candidate: Molecule) -> float:
        """Returns how many conformers will be computed, an estimate: 1 without an average or without turning bonds."""
        return self.settings.average_conformers if self.settings.average and how_many(candidate.mol) > 10 else 1

    def _averaged(self, molecule: Molecule, context: Context) -> Finding:
        chosen = self.settings
        mol = resolved(molecule.mol)
        seed = chosen.geometry.seed(molecule.key, context.replicate)
        graph = molecule.charge, molecule.multiplicity
        low, facts = low_conformers(mol, *graph, chosen.geometry, seed, chosen.average_conformers)
        computed = []
        for k, start in enumerate(low.geometries):
            found, geometry, energy = self._conformer(molecule, context, start, k + 1)
            computed.append(ComputedConformer(geometry, found, energy, int(low.found[k])))
        temperature = chosen.average_temperature
        average = conformer_average(mol, computed, low.embedded, temperature, self.rotations_counted)
        lowest = average.lowest.finding
        file = context.scratch / f"{molecule.key[:16]}-conformers.xyz"
        file.write_text(average.structures, encoding="utf-8")
        artifacts = *lowest.artifacts, ArtifactFile(file.name, str(file), "chemical/x-xyz")
        kinds = {row.property: MOLECULE for row in average.rows}
        average_facts: dict[str, Any] = {**average.diagnostics, "left_out": low.left_out}
        facts |= {**lowest.diagnostics, UNCERTAINTY_KIND: kinds, "average": average_facts}
        left_out = f"{low.left_out} more conformers within 4 kcal/mol by GFN2-xTB are not in the average"
        notes = [lowest.detail, average.note, left_out if low.left_out else ""]
        detail = "; ".join(note for note in notes if note)
        return replace(lowest, measured=average.rows, diagnostics=facts, detail=detail, artifacts=artifacts)

    def _conformer(
        self, molecule: Molecule, context: Context, start: Geometry, number: int
    ) -> tuple[Finding, Geometry, float]:
        """Returns the result on one conformer, in folders of its own. Raises SimulatorError that names it."""
        name = f"conformer-{number}"
        own = replace(context, scratch=context.scratch / name, checkpoint=context.checkpoint / name)
        for folder in (own.scratch, own.checkpoint):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            return self.at_geometry(molecule, own, start)
        except SimulatorError as error:
            raise SimulatorError(error.outcome, error.reason, f"{name}: {error.detail}", **error.diagnostics) from error
