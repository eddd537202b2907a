"""Potentials: energies, forces and stresses of many periodic cells on a named energy scale, and the registry of models.

Models register under the entry point group `sciagent.potentials`; each is loaded once per process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.model_registry import declared_model, load_model, model_versions, registered_models

Numbers = NDArray[np.float64]
MAX_ATOMS_ON_CPU = 128
"""Largest number of atoms in a call of a model on the CPU: as many as fit into the caches of a core."""
MAX_ATOMS_ON_GPU = 4096
"""Largest number of atoms in a call of a model on a GPU: as many as fit into its memory."""
UNCORRECTED = "uncorrected"
"""Name of the correction of energies that have none."""
MP2020 = "MP2020"
"""Name of the corrections of the Materials Project from 2020."""


@dataclass(frozen=True)
class EnergyScale:
    """The reference of an energy. Energies of different scales differ by eV per atom, so they never mix."""

    model: str
    """The force field, such as `CHGNet-0.3.0`."""
    functional: str
    """Functional of the calculations that it was trained on, such as `PBE+U` or `r2SCAN`."""
    correction: str = UNCORRECTED
    """Correction that the energies of these calculations contain: `uncorrected` or `MP2020`."""

    @property
    def label(self) -> str:
        """The functional with the correction, such as `PBE+U, MP2020`."""
        return f"{self.functional}, {self.correction}"

    def is_comparable(self, other: EnergyScale) -> bool:
        """Returns whether two models predict the same quantity."""
        return (self.functional, self.correction) == (other.functional, other.correction)


@dataclass(frozen=True)
class Energy:
    """An energy on its scale."""

    per_atom: float
    """In eV per atom."""
    scale: EnergyScale

    def __sub__(self, other: Energy) -> float:
        """Returns the difference in eV per atom. Raises SimulatorError (energy_scale) across scales."""
        if self.scale != other.scale:
            raise _mixed_scales(self.scale, other.scale)
        return self.per_atom - other.per_atom


def model_difference(first: Energy, second: Energy) -> float:
    """Returns how far two models of one functional and correction differ, eV per atom; not negative.

    Raises SimulatorError (energy_scale) for other functionals or corrections."""
    if not first.scale.is_comparable(second.scale):
        raise _mixed_scales(first.scale, second.scale)
    return abs(first.per_atom - second.per_atom)


def _mixed_scales(one: EnergyScale, other: EnergyScale) -> SimulatorError:
    """Returns the error of a comparison of energies on two scales."""
    detail = f"energies of {one.model} ({one.label}) and of {other.model} ({other.label}) are on different scales"
    return SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.ENERGY_SCALE, detail)


@dataclass(frozen=True)
class PotentialValues:
    """The potential at one structure."""

    energy: float
    """Total energy of the cell, in eV."""
    forces: Numbers
    """n x 3, in eV/angstrom."""
    stress: Numbers
    """3 x 3, in eV/angstrom**3; positive under tension, as in ASE."""
    seconds: float = 0.0
    """Core-seconds that the evaluation takes alone, by the size of its graph; 0 if the model does not tell."""

    @property
    def is_finite(self) -> bool:
        """Whether energy, forces and stress are finite numbers."""
        return bool(np.isfinite(self.energy) and np.isfinite(self.forces).all() and np.isfinite(self.stress).all())


class Potential(Protocol):
    """A loaded model. It depends on nothing but positions, cell and elements."""

    @property
    def scale(self) -> EnergyScale: ...

    @property
    def atoms_at_once(self) -> int:
        """Largest number of atoms in a call of `evaluate`; a single structure may have more."""
        ...

    def evaluate(self, batch: Sequence[Any]) -> Sequence[PotentialValues]:
        """Returns the values for each ase.Atoms, in order. Numbers that the model cannot give are not finite."""
        ...


Make = Callable[[Path | None, str], Potential]
"""Loads a model, as `PotentialFactory` says."""


@dataclass(frozen=True)
class PotentialFactory:
    """The object that a package registers under the entry point group `sciagent.potentials`: a model.

    Calling it loads the model: (path of weights or None for those in the package, `cpu` or `cuda`) -> Potential."""

    name: str
    """Name in campaign files, equal to that of the entry point."""
    scale: EnergyScale
    """Scale of its energies. For weights from a file, the campaign file states functional and correction."""
    elements: frozenset[str]
    """Symbols of the elements that the model knows."""
    make: Make
    seconds: float
    """Core-seconds for an atom of a batch, for energy, forces and stress."""
    package: str
    """The distribution with the model, whose version belongs to the provenance."""
    ships_weights: bool = True
    """Whether the package contains weights. If not, a campaign has to name a file."""
    ignores_charge: bool = True
    """Whether the model does not depend on charge and spin. Charged candidates are then refused."""
    environment: str | None = None
    """Name of the environment in `sciagent engines` that has the package; None for sciagent's own environment."""

    def __call__(self, weights: Path | None, device: str) -> Potential:
        return self.make(weights, device)


GROUP = "sciagent.potentials"
NOUN = "potential"
GPU_FILES = ("/dev/nvidiactl", "/dev/kfd")
"""Files of which a machine with a GPU has one: the first with the driver of NVIDIA, the second with that of AMD."""


def potential_names() -> tuple[str, ...]:
    """Returns the sorted names of all installed potentials."""
    return tuple(sorted(registered_models(GROUP, NOUN)))


@cache
def potential_factory(name: str) -> PotentialFactory:
    """Returns what a package declares about a potential; no model is loaded.

    Raises UnknownNameError, or UsageError if the package does not load or offers something else."""
    return declared_model(GROUP, NOUN, name, PotentialFactory)


@lru_cache(maxsize=4)
def load_potential(name: str, weights: Path | None = None, device: str = "cpu") -> Potential:
    """Returns the model, loaded once per process. Text that it prints while it loads is dropped.

    weights: a file; None for those in the package. All callers give the arguments by position, since the cache tells
    arguments by name apart from them.
    Raises SimulatorError bad_environment if its package is missing, or if its weights cannot be read, and UsageError
    for a model without weights."""
    return load_model(potential_factory(name), weights, device, NOUN, extra="mlff")


@cache
def potential_versions(name: str) -> Mapping[str, str]:
    """Returns {distribution: version} of the distributions that contain a potential's package or that registered it.

    The first call of a process reads the metadata of all distributions, which takes a quarter of a second."""
    return model_versions(GROUP, NOUN, name, potential_factory(name).package)


def available_device() -> str:
    """Returns `cuda` if this process was given a GPU and PyTorch can use it, else `cpu`."""
    if not os.environ.get("CUDA_VISIBLE_DEVICES"):  # the host sets it for jobs that hold a GPU
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def is_fork_safe() -> bool:
    """Returns whether a model may run before a fork.

    On a machine with a GPU, PyTorch starts threads at the first gradient, and a forked process lacks them."""
    import torch

    supports_gpu = (torch.version.cuda or torch.version.hip) is not None
    has_gpu = any(Path(file).exists() for file in GPU_FILES)
    return not (supports_gpu and has_gpu)
