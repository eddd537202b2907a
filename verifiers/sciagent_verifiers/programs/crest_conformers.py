"""The verifier `crest.conformers`: the conformer ensemble of a molecule, sampled by CREST."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.verification.verifier_contract import Context, Cost, Finding, Tier
from sciagent_simulators.conformer_search_and_averages import KCAL, ensemble_of, gfn2_surface, with_defined_stereo
from sciagent_simulators.programs.xtb_and_crest import CREST, crest
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare
from sciagent_verifiers.conformer_ensemble_base import ConformerEnsemble, Gfn2EnsembleSettings
from sciagent_verifiers.programs.program_verifiers import ProgramVerifier, with_output


class CrestConformersSettings(Gfn2EnsembleSettings):
    """The sampling and the Boltzmann weights."""

    mode: Literal["full", "quick", "squick"] = Field("full", description="Length of the sampling, as CREST names it.")
    geometry: GeometryProtocol = Field(GeometryProtocol(), description="Protocol of the first geometry.")

    @property
    def sampling(self) -> str:
        return "CREST" if self.mode == "full" else f"CREST {self.mode}"


class CrestConformers(ConformerEnsemble, ProgramVerifier):
    """Conformer ensemble of a molecule in GFN2-xTB, sampled by the program CREST.

    It needs the program: on the path, or the file that SCIAGENT_CREST names; CREST 2 calls xtb, which must be on the
    path too. CREST samples by metadynamics, which finds ring conformers and hydrogen bonds that the embedding of
    `xtb.conformers` may miss, in minutes instead of seconds. Its conformers are relaxed again by tblite, and
    conformers, mirror images, weights, energy and dipole are counted and averaged as in `xtb.conformers`: the two
    differ only in the sampling. CREST's energies have to agree with tblite's within 1e-4 hartree.

    A molecule with undefined stereocentres is refused (undefined_stereo), unless its stereoisomers are two enantiomers.

    The verifier is not tested with the real program, since Debian has no package of it: tests read recorded output and
    run a program that writes it. The uncertainty is that of `xtb.conformers`, since CREST was not run repeatedly.

    Source: Pracht, Bohle, Grimme, Phys. Chem. Chem. Phys. 22, 7169 (2020).
    """

    name = "crest.conformers"
    version = "1"
    tier = Tier.SIMULATION
    programs = (CREST,)
    Settings = CrestConformersSettings
    settings: CrestConformersSettings

    def cost(self, candidate: Molecule) -> Cost:
        """Returns a rough guess from published timings, minutes for 20 atoms and hours for 80; not measured here."""
        share = {"full": 1.0, "quick": 0.3, "squick": 0.2}[self.settings.mode]
        return Cost(core_seconds=20 + share * 0.3 * candidate.n_atoms**2.4)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        s = self.settings
        mol = with_defined_stereo(molecule.mol)  # `accepts` has refused molecules for which this is None
        seed = s.geometry.seed(molecule.key, context.replicate)
        start, facts = prepare(mol, molecule.charge, molecule.multiplicity, s.geometry, seed)
        solvation = Solvation(s.solvent) if s.solvent else None
        mode = "" if s.mode == "full" else s.mode
        folder = self.folder(molecule, context)
        sampled, output = crest(start, folder, window=s.window, solvation=solvation, threads=context.threads, mode=mode)
        ensemble, counts = ensemble_of(sampled, mol, window=s.window * KCAL, surface=gfn2_surface(solvation))
        program = f"{output.program.title} {output.version}"
        diagnostics = {**facts, **counts, "found": len(sampled), "program": program}
        finding = self.averaged(molecule, context, ensemble, diagnostics, is_rigid=len(ensemble.geometries) == 1)
        return with_output(finding, context, output)
