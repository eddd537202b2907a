"""The verifier `xtb.conformers`: the conformer ensemble of a molecule and its Boltzmann averages."""

from __future__ import annotations

from sciagent.chemistry.molecule import Molecule
from sciagent.verification.verifier_contract import Context, Cost, Finding
from sciagent_simulators.conformer_search_and_averages import gfn2_surface
from sciagent_verifiers.conformer_ensemble_base import EmbeddedEnsemble, EmbeddedEnsembleSettings, Gfn2EnsembleSettings
from sciagent_verifiers.simulation.tight_binding_base_and_second_opinion import TightBinding


class XtbConformersSettings(Gfn2EnsembleSettings, EmbeddedEnsembleSettings):
    """The settings of the conformer search and of the Boltzmann weights."""


class XtbConformers(EmbeddedEnsemble, TightBinding):
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

    def cost(self, candidate: Molecule) -> Cost:
        """Returns a fit to 16 molecules of 3 to 33 atoms; flexible ones take up to 2.5 times it, rigid ones 1/3."""
        return Cost(core_seconds=0.04 + 5.5e-6 * self.n_embedded(candidate) * candidate.n_atoms**3)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        return self.searched(molecule, context, gfn2_surface(self.solvation))
