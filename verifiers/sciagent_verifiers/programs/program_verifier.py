"""The base class of the verifiers that start an external program: its folder, its output file, the geometry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence import ArtifactFile
from sciagent.domain.properties import DIPOLE, HOMO, HOMO_LUMO_GAP, LUMO, TOTAL_ENERGY
from sciagent.verification.contract import Context, Finding, Property, PropertyAtLevel, at
from sciagent_simulators.geometry import Geometry, bonds_of, check_bonds, prepare
from sciagent_simulators.programs.result import ProgramResult
from sciagent_simulators.programs.running import ProgramOutput
from sciagent_verifiers.base import Calculation

MAX_KEPT = 4 << 20  # bytes; a longer output is not kept with the evidence


class ProgramVerifier(Calculation):
    """A verifier by one of `programs`. Its settings have `geometry` and `max_atoms`."""

    engines = ("tblite", "ase", "rdkit")
    preload = ("numpy", "ase.optimize", "rdkit.Chem.AllChem", "tblite.ase")

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, HOMO, LUMO, HOMO_LUMO_GAP, DIPOLE, TOTAL_ENERGY)

    def start(self, molecule: Molecule, context: Context) -> tuple[Geometry, Mapping[str, Any]]:
        """Returns the geometry by the protocol of the settings, and diagnostics. Raises SimulatorError."""
        protocol = self.settings.geometry
        seed = protocol.seed(molecule.key, context.replicate)
        return prepare(molecule.mol, molecule.charge, molecule.multiplicity, protocol, seed)

    def folder(self, molecule: Molecule, context: Context) -> Path:
        """Returns the program's working folder, which does not exist yet."""
        return context.scratch / f"{self.name}-{molecule.key[:16]}"

    def answered(
        self,
        molecule: Molecule,
        context: Context,
        result: ProgramResult,
        output: ProgramOutput,
        diagnostics: Mapping[str, Any],
    ) -> Finding:
        """Returns the finding of a self-consistent field whose geometry has the bonds of the molecule."""
        check_bonds(result.geometry, bonds_of(molecule.mol))
        gap = {HOMO: result.homo, LUMO: result.lumo, HOMO_LUMO_GAP: result.gap}
        values: dict[Property, float | None] = {**gap, DIPOLE: result.dipole, TOTAL_ENERGY: result.energy}
        facts = {**diagnostics, **result.diagnostics, "program": f"{output.program.title} {output.version}"}
        finding = self.calculated(molecule, context, self.measured(molecule, values), facts, {"": result.geometry})
        return with_output(finding, context, output)


def with_output(finding: Finding, context: Context, output: ProgramOutput) -> Finding:
    """Returns the finding with the program's output as a file, unless it is too long to be kept."""
    data = output.text.encode("utf-8", "replace")
    if len(data) > MAX_KEPT:
        return replace(finding, diagnostics={**finding.diagnostics, "output_not_kept": f"{len(data)} bytes"})
    file = context.scratch / f"{finding.candidate_key[:16]}-{output.program.name}.txt"
    file.write_bytes(data)
    return replace(finding, artifacts=(*finding.artifacts, ArtifactFile(file.name, str(file), "text/plain")))
