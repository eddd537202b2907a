"""The base class and the settings of the verifiers of conformer ensembles, which differ in how they sample."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import seed_of
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import (
    CONFORMATIONAL_FREE_ENERGY,
    CONFORMER_WEIGHT,
    CONFORMERS,
    DIPOLE,
    TOTAL_ENERGY,
)
from sciagent.verification.verifier_contract import Context, Finding, Level, PropertyAtLevel, Refusal, Settings, at
from sciagent_simulators.conformer_search_and_averages import (
    KCAL,
    Ensemble,
    Surface,
    n_conformers_to_embed,
    search,
    with_defined_stereo,
)
from sciagent_simulators.low_conformers_and_search_spread import SearchFreedom
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvent
from sciagent_verifiers.verifier_bases import Calculation, rigid_or_flexible

# Standard deviations over the seeds of the search, in the properties' units: of a search that repeats exactly, and of
# the others.
RIGID = {CONFORMERS: 0.0, CONFORMER_WEIGHT: 0.0, CONFORMATIONAL_FREE_ENERGY: 0.0, DIPOLE: 0.005, TOTAL_ENERGY: 0.001}
FLEXIBLE = {CONFORMERS: 3, CONFORMER_WEIGHT: 0.02, CONFORMATIONAL_FREE_ENERGY: 0.003, DIPOLE: 0.06, TOTAL_ENERGY: 0.001}


class EnsembleSettings(Settings):
    """The width of the ensemble and the Boltzmann weights."""

    window: float = Field(4.0, gt=0, le=20, description="Width of the ensemble, kcal/mol above the lowest.")
    temperature: float = Field(298.15, ge=10, le=2000, description="Temperature of the Boltzmann weights, K.")
    max_atoms: int = Field(150, ge=1, description="Larger molecules are refused; hydrogens are counted.")

    @property
    @abstractmethod
    def level(self) -> Level:
        """The level of the values."""

    @property
    @abstractmethod
    def sampling(self) -> str:
        """The name of the search in the label, such as `ETKDGv3x50`."""

    def geometry_label(self, surface: str) -> str:
        """Returns the text for `Level.geometry`. surface: the name of the method that relaxes the conformers."""
        return f"{surface}//{self.sampling}, ensemble of {self.window:g} kcal/mol at {self.temperature:g} K"


class EmbeddedEnsembleSettings(EnsembleSettings):
    """The settings of a search from embedded conformers."""

    embed: int | None = Field(
        None,
        ge=1,
        le=2000,
        description="Number of ETKDGv3 conformers; default: by the rotatable bonds and rings of the molecule.",
    )
    max_relaxed: int = Field(
        100, ge=1, le=1000, description="Largest number of conformers, the lowest first, that are relaxed."
    )

    @property
    def sampling(self) -> str:
        return "ETKDGv3" if self.embed is None else f"ETKDGv3x{self.embed}"


class Gfn2EnsembleSettings(EnsembleSettings):
    """The settings of an ensemble in GFN2-xTB."""

    solvent: Solvent | None = Field(None, description="Solvent of all geometries and energies (ALPB).")

    @property
    def level(self) -> Level:
        method = "GFN2-xTB+ALPB" if self.solvent else "GFN2-xTB"
        surface = f"GFN2-xTB({self.solvent})" if self.solvent else "GFN2-xTB"
        return Level(method, phase=self.solvent or "gas", geometry=self.geometry_label(surface))


class ConformerEnsemble(Calculation):
    """A verifier whose values are Boltzmann averages over the conformers of one surface."""

    settings: EnsembleSettings
    spreads = rigid_or_flexible(RIGID, FLEXIBLE)

    @property
    def level(self) -> Level:
        return self.settings.level

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, CONFORMERS, CONFORMER_WEIGHT, CONFORMATIONAL_FREE_ENERGY, DIPOLE, TOTAL_ENERGY)

    def accepts(self, candidate: Molecule) -> Refusal | None:
        refusal = super().accepts(candidate)
        if refusal is not None:
            return refusal
        if with_defined_stereo(candidate.mol) is None:
            detail = "leaves diastereomers open, each with its own conformers; define its centres and double bonds"
            return Refusal(Reason.UNDEFINED_STEREO, f"{candidate.smiles} {detail}")
        return None

    def averaged(
        self, molecule: Molecule, context: Context, ensemble: Ensemble, diagnostics: Mapping[str, Any], is_rigid: bool
    ) -> Finding:
        """Returns the finding with the averages over the ensemble. is_rigid: whether the search repeats exactly."""
        temperature = self.settings.temperature
        # the ensemble has the lowest conformer first
        values = {
            CONFORMERS: float(len(ensemble.geometries)),
            CONFORMER_WEIGHT: float(ensemble.weights(temperature)[0]),
            CONFORMATIONAL_FREE_ENERGY: ensemble.free_energy(temperature),
            DIPOLE: ensemble.dipole(temperature),
            TOTAL_ENERGY: float(ensemble.energies[0]),
        }
        measured_properties = {row.property for row in self.measures}
        values = {prop: value for prop, value in values.items() if prop in measured_properties}
        spread = self.spreads[SearchFreedom.RIGID if is_rigid else SearchFreedom.OPEN]
        # the class of the molecule does not matter here, so all classes get the same
        rows = self.measured(molecule, values, spreads=dict.fromkeys(SearchFreedom, spread))
        return self.calculated(molecule, context, rows, diagnostics, {"conformers": ensemble.to_xyz(temperature)})


class EmbeddedEnsemble(ConformerEnsemble):
    """A verifier whose conformers are embedded, ranked by MMFF94 and relaxed on a surface of its own."""

    settings: EmbeddedEnsembleSettings

    def n_embedded(self, candidate: Molecule) -> int:
        """Returns the number of conformers that are embedded."""
        return self.settings.embed or n_conformers_to_embed(candidate.mol)

    def searched(
        self, molecule: Molecule, context: Context, surface: Surface, facts: Mapping[str, Any] | None = None
    ) -> Finding:
        """Returns the finding of a search on the surface. facts: diagnostics beside those of the search."""
        s = self.settings
        mol = with_defined_stereo(molecule.mol)  # `accepts` has refused molecules for which this is None
        ensemble, diagnostics = search(
            mol,
            molecule.charge,
            molecule.multiplicity,
            seed_of(molecule.key, self.settings_hash, context.replicate),  # the campaign does not matter
            embedded=s.embed,
            window=s.window * KCAL,
            most_relaxed=s.max_relaxed,
            surface=surface,
        )
        # a single conformer, to which several embeddings led, repeats exactly
        is_rigid = len(ensemble.geometries) == 1 and diagnostics["found_once"] == 0
        return self.averaged(molecule, context, ensemble, {**diagnostics, **(facts or {})}, is_rigid=is_rigid)
