"""The verifier `crest.conformers`: the conformer ensemble of a molecule, sampled by CREST."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import CONFORMATIONAL_FREE_ENERGY, CONFORMER_WEIGHT, CONFORMERS, DIPOLE, TOTAL_ENERGY
from sciagent.programs import CREST
from sciagent.verification.contract import Context, Cost, Finding, Level, PropertyAtLevel, Refusal, Settings, Tier, at
from sciagent_simulators.conformers import KCAL, ensemble_of, resolved
from sciagent_simulators.geometry import GeometryProtocol, prepare
from sciagent_simulators.implicit_solvent import Solvation, Solvent
from sciagent_simulators.programs.crest import crest
from sciagent_verifiers.programs.program_verifier import ProgramVerifier, with_output
from sciagent_verifiers.simulation.xtb_conformers import FLEXIBLE, RIGID


class CrestConformersSettings(Settings):
    """The sampling and the Boltzmann weights."""

    mode: Literal["full", "quick", "squick"] = Field("full", description="How long CREST samples.")
    window: float = Field(4.0, gt=0, le=20, description="Width of the ensemble, kcal/mol above the lowest.")
    temperature: float = Field(298.15, ge=10, le=2000, description="Of the Boltzmann weights, K.")
    solvent: Solvent | None = Field(None, description="Everything in this solvent (ALPB).")
    geometry: GeometryProtocol = Field(GeometryProtocol(), description="Makes the first geometry.")
    max_atoms: int = Field(150, ge=1, description="Hydrogens included; larger molecules are refused.")

    @property
    def label(self) -> str:
        """The name for `Level.geometry`."""
        solvent = f"({self.solvent})" if self.solvent else ""
        mode = "" if self.mode == "full" else f" {self.mode}"
        return f"GFN2-xTB{solvent}//CREST{mode}, ensemble of {self.window:g} kcal/mol at {self.temperature:g} K"


class CrestConformers(ProgramVerifier):
    """Conformer ensemble of a molecule in GFN2-xTB, sampled by the program CREST.

    It needs the program: on the path, or the file that SCIAGENT_CREST names; CREST 2 calls xtb, which must be on the
    path too. CREST samples by metadynamics, which finds ring conformers and hydrogen bonds that the embedding of
    `xtb.conformers` may miss, in minutes instead of seconds. What it found is relaxed again by tblite, and conformers,
    mirror images, weights, energy and dipole are counted and averaged as in `xtb.conformers`: the two differ in the
    sampling alone. CREST's energies have to agree with tblite's within 1e-4 hartree.

    A molecule with undefined stereocentres is refused (undefined_stereo), unless its stereoisomers are two enantiomers.

    Not tested with the real program here, for Debian has no package of it: tests read recorded output and run a
    program that writes it. The uncertainty is that of `xtb.conformers`, for want of repeats with CREST.

    Source: Pracht, Bohle, Grimme, Phys. Chem. Chem. Phys. 22, 7169 (2020).
    """

    name = "crest.conformers"
    version = "1"
    tier = Tier.SIMULATION
    programs = (CREST,)
    Settings = CrestConformersSettings
    settings: CrestConformersSettings
    spread = RIGID, FLEXIBLE

    @property
    def level(self) -> Level:
        solvent = self.settings.solvent
        return Level("GFN2-xTB+ALPB" if solvent else "GFN2-xTB", phase=solvent or "gas", geometry=self.settings.label)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, CONFORMERS, CONFORMER_WEIGHT, CONFORMATIONAL_FREE_ENERGY, DIPOLE, TOTAL_ENERGY)

    def accepts(self, candidate: Molecule) -> Refusal | None:
        refused = super().accepts(candidate)
        if refused is None and resolved(candidate.mol) is None:
            detail = "leaves diastereomers open, each with conformers of its own; define its stereocentres"
            return Refusal(Reason.UNDEFINED_STEREO, f"{candidate.smiles} {detail}")
        return refused

    def cost(self, candidate: Molecule) -> Cost:
        """Returns a rough guess from published timings, minutes for 20 atoms and hours for 80; not measured here."""
        share = {"full": 1.0, "quick": 0.3, "squick": 0.2}[self.settings.mode]
        return Cost(core_seconds=20 + share * 0.3 * candidate.n_atoms**2.4)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        s = self.settings
        mol = resolved(molecule.mol)
        seed = s.geometry.seed(molecule.key, context.replicate)
        start, facts = prepare(mol, molecule.charge, molecule.multiplicity, s.geometry, seed)
        solvation = Solvation(s.solvent) if s.solvent else None
        mode = "" if s.mode == "full" else s.mode
        folder = self.folder(molecule, context)
        found, output = crest(start, folder, s.window, solvation, context.threads, mode)
        ensemble, counts = ensemble_of(found, mol, s.window * KCAL, solvation)
        values = {
            CONFORMERS: float(len(ensemble.geometries)),
            CONFORMER_WEIGHT: float(ensemble.weights(s.temperature)[0]),
            CONFORMATIONAL_FREE_ENERGY: ensemble.free_energy(s.temperature),
            DIPOLE: ensemble.dipole(s.temperature),
            TOTAL_ENERGY: float(ensemble.energies[0]),
        }
        spread = RIGID if len(ensemble.geometries) == 1 else FLEXIBLE
        rows = self.measured(molecule, values, (spread, spread))
        told = {**facts, **counts, "found": len(found), "program": f"{output.program.title} {output.version}"}
        files = {"conformers": ensemble.to_xyz(s.temperature)}
        return with_output(self.calculated(molecule, context, rows, told, files), context, output)
