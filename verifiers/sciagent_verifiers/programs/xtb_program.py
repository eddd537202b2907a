"""The verifier `xtb.program`: frontier orbitals, dipole and total energy by the program xtb."""

from __future__ import annotations

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.verification.verifier_contract import Context, Cost, Finding, Level, Settings, Tier
from sciagent_simulators.programs.xtb_and_crest import XTB, GfnLevel, xtb
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Model, Solvation, Solvent, unparametrised
from sciagent_simulators.starting_geometry import GeometryProtocol
from sciagent_verifiers.programs.program_verifiers import ProgramVerifier
from sciagent_verifiers.simulation.xtb_singlepoint import SPREADS


class XtbProgramSettings(Settings):
    """The method, the solvent and the geometry."""

    method: GfnLevel = Field("GFN2-xTB", description="The Hamiltonian.")
    solvent: Solvent | None = Field(None, description="Implicit solvent; none is the gas phase.")
    model: Model = Field("alpb", description="The implicit solvent's model.")
    optimise: bool = Field(
        False, description="Relax the geometry by xtb's own optimiser (tight), with this method and in this solvent."
    )
    geometry: GeometryProtocol = Field(
        GeometryProtocol(), description="Protocol of the first geometry, made by tblite."
    )
    max_atoms: int = Field(200, ge=1, description="Hydrogens included; larger molecules are refused.")

    @model_validator(mode="after")
    def _parameters_exist(self) -> XtbProgramSettings:
        if self.solvent:
            fault = unparametrised(self.method, self.model, self.solvent)
            if fault:
                raise ValueError(fault)
        return self


class XtbProgram(ProgramVerifier):
    """Frontier orbitals, dipole and total energy by the program xtb (GFN2-xTB or GFN1-xTB).

    It needs the program: on the path, or the file that SCIAGENT_XTB names. Energies agree with those of
    `xtb.singlepoint`, which needs no program, within 1e-6 hartree on the same geometry (a test, xtb 6.5.1), so use this
    verifier where xtb's own optimiser or a version of your own is wanted. Settings and levels mean the same.

    xtb 6.5.1 ends with status 0 and "normal termination" after a relaxation that did not converge, and computes another
    method than an unknown one that it was asked for: both are found and reported by name. The output is kept.

    The uncertainty is repeatability (k = 1) over conformer searches, as for `xtb.singlepoint`.

    Sources: Bannwarth et al., WIREs Comput. Mol. Sci. 11, e1493 (2021); Bannwarth, Ehlert, Grimme, J. Chem. Theory
    Comput. 15, 1652 (2019).
    """

    name = "xtb.program"
    version = "1"
    tier = Tier.SIMULATION
    programs = (XTB,)
    Settings = XtbProgramSettings
    settings: XtbProgramSettings
    spreads = SPREADS

    @property
    def level(self) -> Level:
        s = self.settings
        method = f"{s.method}+{s.model.upper()}" if s.solvent else s.method
        geometry = s.geometry.label
        if s.optimise:
            optimiser = f"{s.method}({s.solvent})" if s.solvent else s.method
            geometry = f"{optimiser}//{geometry}"
        return Level(method, phase=s.solvent or "gas", geometry=geometry)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of the geometry, as for xtb.singlepoint, and of one run or a relaxation by the program."""
        factor = 0.6 + 0.4 * self.settings.geometry.conformers / 10  # 1 for the default, 10 conformers
        if self.settings.optimise:
            factor += 0.4
        return Cost(core_seconds=0.1 + 4e-5 * factor * candidate.n_atoms**2.8)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        s = self.settings
        geometry, diagnostics = self.start(molecule, context)
        solvation = Solvation(s.solvent, s.model) if s.solvent else None
        folder = self.folder(molecule, context)
        result, output = xtb(geometry, s.method, folder, solvation=solvation, relax=s.optimise, threads=context.threads)
        return self.scf_finding(molecule, context, result, output, diagnostics)
