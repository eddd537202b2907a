"""The verifier `mlff.molecule`: the conformer ensemble of a molecule by a machine-learnt force field."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import DIPOLE
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Outside,
    PropertyAtLevel,
    ReferenceFile,
    Refusal,
    Tier,
)
from sciagent_simulators.conformer_search_and_averages import turning_bonds
from sciagent_simulators.molecular_potentials.molecular_potential_base_and_registry import (
    Domain,
    MolecularPotential,
    fault_in,
    load_molecular_potential,
    molecular_potential_factory,
    molecular_potential_versions,
)
from sciagent_simulators.molecular_potentials.relax_molecule import potential_surface
from sciagent_simulators.potentials.potential_base_and_registry import available_device
from sciagent_verifiers.conformer_ensemble_base import EmbeddedEnsemble, EmbeddedEnsembleSettings

EXPECTED_STEPS = 30
"""Evaluations of a relaxation, in the estimate of the cost."""
EXPECTED_SHARE = 0.5
"""Largest share of the embedded conformers that are distinct and relaxed, in the estimate of the cost."""
CONFORMERS_PER_TURNING_BOND = 2.2
"""Factor by which a turning bond multiplies the distinct conformers, in the estimate of the cost."""


class MlffMoleculeSettings(EmbeddedEnsembleSettings):
    """The model, the conformer search and the Boltzmann weights."""

    model: str = Field("so3lr", description="A registered molecular potential; `file`: one of your own, see `weights`.")
    weights: Annotated[ReferenceFile, Outside.CODE] | None = omitted_if_unset(
        None,
        description="With `model: file`: the JSON file that declares an ASE calculator and the files of its weights "
        "with their SHA-256. Calculators and weights can run code.",
    )

    @model_validator(mode="after")
    def _is_known(self) -> MlffMoleculeSettings:
        factory = molecular_potential_factory(self.model)
        if self.weights is None and not factory.ships_weights:
            raise ValueError(f"{self.model} has no weights of its own; name a file: weights: FILE")
        if self.weights is not None and factory.ships_weights:
            raise ValueError(f"{self.model} has the weights of its package; for others take model: file")
        _ = self.domain  # raises ValueError for a file that declares no model
        return self

    @property
    def domain(self) -> Domain:
        """The molecules that the model knows, and its energy scale. A model of a file is named by its hash, too."""
        path = None if self.weights is None else Path(self.weights.path)
        domain = molecular_potential_factory(self.model).read_domain(path)
        if self.weights is None:
            return domain
        named = replace(domain.scale, model=f"{domain.scale.model}:{self.weights.sha256[:12]}")
        return replace(domain, scale=named)

    @property
    def level(self) -> Level:
        scale = self.domain.scale
        return Level(scale.model, scale.functional, phase="gas", geometry=self.geometry_label(scale.model))


class MlffMolecule(EmbeddedEnsemble):
    """Conformer ensemble of a molecule by a machine-learnt force field, between GFN2-xTB and DFT.

    As in `xtb.conformers`, conformers from ETKDGv3 and MMFF94 are ranked and relaxed, here on the force field, and
    averaged with Boltzmann weights of electronic energies. Bonds are checked after each relaxation. The finding's file
    has all structures as extended XYZ with energy and weight.

    The total energy is that of the lowest conformer on the model's own scale. SO3LR was trained on forces: its energies
    of two different molecules have no common zero, and none is comparable with GFN2-xTB or DFT.

    Refused by name: elements outside the training data (element; metals are among them), net charges whose errors are
    not known (charge), radicals and triplets (radical), molecules with more than `max_atoms` atoms (too_large), and
    diastereomers left open (undefined_stereo).

    The uncertainty is that of `xtb.conformers`, whose search is the same: repeatability (k = 1) over its seed, measured
    with GFN2-xTB and not with this model. It is not the error of the model.

    Source: Kabylda et al., J. Am. Chem. Soc. 147, 33723 (2025), doi 10.1021/jacs.5c09558.
    """

    name = "mlff.molecule"
    version = "1"
    tier = Tier.SIMULATION
    Settings = MlffMoleculeSettings
    settings: MlffMoleculeSettings
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    engines = ("so3krates-torch", "torch", "ase", "rdkit")
    preload = ("numpy", "ase.optimize", "rdkit.Chem.AllChem", "rdkit.Chem.EnumerateStereoisomers", "torch")

    @cached_property
    def domain(self) -> Domain:
        """The molecules that the model knows."""
        return self.settings.domain

    @cached_property
    def level(self) -> Level:
        return self.settings.level

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        has_dipole = self.domain.has_dipole
        return tuple(row for row in super().measures if has_dipole or row.property != DIPOLE)

    def lacks(self) -> str | None:
        """Returns None if the model's package and PyTorch are installed, else how to install them."""
        needed = ("torch", molecular_potential_factory(self.settings.model).package)
        absent = [name for name in needed if find_spec(name) is None]
        return f"{', '.join(absent)} not installed; pip install 'sciagent[so3lr]'" if absent else None

    @property
    def runs_in(self) -> str | None:
        """The environment of the model's package."""
        return molecular_potential_factory(self.settings.model).environment

    @classmethod
    def warm(cls) -> None:
        """Sets PyTorch to one thread: more would not survive the fork."""
        import torch

        torch.set_num_threads(1)

    def attach(self) -> None:
        """Loads the model on the CPU, so that jobs share it."""
        import torch

        torch.set_num_threads(1)
        self._loaded("cpu")
        molecular_potential_versions(self.settings.model)  # kept for the jobs

    def _loaded(self, device: str) -> MolecularPotential:
        weights = self.settings.weights.check() if self.settings.weights else None
        return load_molecular_potential(self.settings.model, weights, device)

    def accepts(self, candidate: Molecule) -> Refusal | None:
        refusal = super().accepts(candidate)
        if refusal is not None:
            return refusal
        fault = fault_in(self.domain, atomic_numbers(candidate), candidate.charge, candidate.multiplicity)
        return None if fault is None else Refusal(*fault)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of relaxing the distinct conformers; stiff ones take a third of it (benchmarks/md)."""
        distinct = CONFORMERS_PER_TURNING_BOND ** turning_bonds(candidate.mol)
        relaxed = min(self.settings.max_relaxed, 1 + EXPECTED_SHARE * self.n_embedded(candidate), distinct)
        evaluations = 1 + relaxed * EXPECTED_STEPS
        seconds = molecular_potential_factory(self.settings.model).seconds * max(1.0, candidate.n_atoms / 30)
        return Cost(core_seconds=0.05 + seconds * evaluations)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        import torch

        torch.set_num_threads(context.threads)
        potential = self._loaded(available_device())
        facts = {"energy_scale": self.domain.scale.functional}
        finding = self.searched(molecule, context, potential_surface(potential), facts)
        return replace(finding, versions=molecular_potential_versions(self.settings.model))


def atomic_numbers(molecule: Molecule) -> list[int]:
    """Returns the atomic numbers of a molecule, hydrogens included."""
    atoms = list(molecule.mol.GetAtoms())
    hydrogens = sum(atom.GetTotalNumHs() for atom in atoms)
    return [atom.GetAtomicNum() for atom in atoms] + [1] * hydrogens
