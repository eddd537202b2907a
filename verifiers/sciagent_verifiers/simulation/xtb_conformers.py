"""The verifier `xtb.conformers`: the conformer ensemble of a molecule and its Boltzmann averages."""

from __future__ import annotations

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence import seed_of
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import CONFORMATIONAL_FREE_ENERGY, CONFORMER_WEIGHT, CONFORMERS, DIPOLE, TOTAL_ENERGY
from sciagent.verification.contract import Context, Cost, Finding, Level, PropertyAtLevel, Refusal, Settings, at
from sciagent_simulators.conformers import KCAL, how_many, resolved, search
from sciagent_simulators.implicit_solvent import Solvent
from sciagent_verifiers.simulation.tight_binding import TightBinding

RIGID = {CONFORMERS: 0.0, CONFORMER_WEIGHT: 0.0, CONFORMATIONAL_FREE_ENERGY: 0.0, DIPOLE: 0.005, TOTAL_ENERGY: 0.001}
FLEXIBLE = {CONFORMERS: 3, CONFORMER_WEIGHT: 0.02, CONFORMATIONAL_FREE_ENERGY: 0.003, DIPOLE: 0.06, TOTAL_ENERGY: 0.001}


class XtbConformersSettings(Settings):
    """The settings of the conformer search and of the Boltzmann weights."""

    embed: int | None = Field(
        None, ge=1, le=2000, description="How many ETKDGv3 conformers; default: by what can turn in the molecule."
    )
    window: float = Field(4.0, gt=0, le=20, description="Width of the ensemble, kcal/mol above the lowest.")
    temperature: float = Field(298.15, ge=10, le=2000, description="Of the Boltzmann weights, K.")
    max_relaxed: int = Field(
        100, ge=1, le=1000, description="Of the lowest single points, those relaxed in GFN2-xTB at most."
    )
    solvent: Solvent | None = Field(None, description="Everything in this solvent (ALPB).")
    max_atoms: int = Field(150, ge=1, description="Hydrogens included; larger molecules are refused.")

    @property
    def label(self) -> str:
        """The name for `Level.geometry`."""
        solvent = f"({self.solvent})" if self.solvent else ""
        number = "" if self.embed is None else f"x{self.embed}"
        return f"GFN2-xTB{solvent}//ETKDGv3{number}, ensemble of {self.window:g} kcal/mol at {self.temperature:g} K"


class XtbConformers(TightBinding):
    """Conformer ensemble of a molecule by GFN2-xTB.

    Conformers from ETKDGv3 and MMFF94 are relaxed in GFN2-xTB. The ensemble has each conformer within `window` of the
    lowest once; mirror images are different conformers. Boltzmann weights include electronic energies, the free energy
    of solvation in a solvent and the number of equivalent wells, but no vibrations and rotations. The dipole is the
    Boltzmann-weighted root mean square; the energy is that of the lowest conformer. The finding's file has all
    structures as extended XYZ with energy and weight.

    A molecule with undefined stereocentres is refused (undefined_stereo), unless its stereoisomers are two enantiomers.

    Accuracy: GFN2-xTB places gauche above anti by 0.62 kcal/mol for butane and 1.38 for 1,2-dichloroethane (experiment:
    0.67 and 1.2), and axial above equatorial methylcyclohexane by 1.5 (1.74). It places gauche ethanol 1.55 below anti,
    whereas in experiment anti is 0.12 lower. The order of conformers that differ in an OH rotor may be wrong.

    The uncertainty is repeatability (k = 1) over the seed of the search: the root mean square over 9 flexible molecules
    of 10 to 33 atoms, 3 seeds each. A single conformer repeats exactly. `found_once` in the diagnostics estimates the
    share of missing conformers.

    Sources: conformers, in sciagent_simulators; Bannwarth, Ehlert, Grimme, J. Chem. Theory Comput. 15, 1652 (2019).
    """

    name = "xtb.conformers"
    version = "1"
    Settings = XtbConformersSettings
    settings: XtbConformersSettings
    engines = ("tblite", "ase", "rdkit")
    preload = ("numpy", "ase.optimize", "rdkit.Chem.AllChem", "rdkit.Chem.EnumerateStereoisomers", "tblite.ase")

    @property
    def level(self) -> Level:
        solvent = self.settings.solvent
        method = "GFN2-xTB+ALPB" if solvent else "GFN2-xTB"
        return Level(method=method, phase=solvent or "gas", geometry=self.settings.label)

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
        """Returns a fit to 16 molecules of 3 to 33 atoms; flexible ones take up to 2.5 times it, rigid ones 1/3."""
        embedded = self.settings.embed or how_many(candidate.mol)
        return Cost(core_seconds=0.04 + 5.5e-6 * embedded * candidate.n_atoms**3)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        s = self.settings
        seed = seed_of(molecule.key, self.settings_hash, context.replicate)  # the campaign does not matter
        limits = s.embed, s.window * KCAL, s.max_relaxed
        ensemble, diagnostics = search(
            resolved(molecule.mol), molecule.charge, molecule.multiplicity, seed, *limits, self.solvation
        )
        values = {
            CONFORMERS: float(len(ensemble.geometries)),
            CONFORMER_WEIGHT: float(ensemble.weights(s.temperature)[0]),
            CONFORMATIONAL_FREE_ENERGY: ensemble.free_energy(s.temperature),
            DIPOLE: ensemble.dipole(s.temperature),
            TOTAL_ENERGY: float(ensemble.energies[0]),
        }
        spread = RIGID if len(ensemble.geometries) == 1 and not diagnostics["found_once"] else FLEXIBLE
        rows = self.measured(molecule, values, (spread, spread))
        return self.calculated(molecule, context, rows, diagnostics, {"conformers": ensemble.to_xyz(s.temperature)})
