"""Potentials: energies, forces and stresses of many periodic cells on a named energy scale, and the registry of models.

Models register under the entry point group `sciagent.potentials`; each is loaded once per process.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError, UnknownNameError, UsageError

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
GPU_FILES = ("/dev/nvidiactl", "/dev/kfd")
"""Files of which a machine with a GPU has one: the first with the driver of NVIDIA, the second with that of AMD."""


@cache
def _registered() -> Mapping[str, EntryPoint]:
    """Returns {name of a potential: its entry point}. Raises UsageError for a name that two packages register."""
    registered: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if point.name in registered and registered[point.name].value != point.value:
            raise UsageError(f'two installed packages offer a potential named "{point.name}"; uninstall one')
        registered[point.name] = point
    return registered


def potential_names() -> tuple[str, ...]:
    """Returns the sorted names of all installed potentials."""
    return tuple(sorted(_registered()))


@cache
def potential_factory(name: str) -> PotentialFactory:
    """Returns what a package declares about a potential; no model is loaded.

    Raises UnknownNameError, or UsageError if the package does not load or offers something else."""
    if name not in _registered():
        raise UnknownNameError("potential", name, potential_names())
    point = _registered()[name]
    try:
        loaded = point.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f'potential "{name}" ({point.value}) does not load: {error}') from error
    if not isinstance(loaded, PotentialFactory) or loaded.name != name:
        raise UsageError(f'potential "{name}": {point.value} is no PotentialFactory of that name')
    return loaded


@lru_cache(maxsize=4)
def load_potential(name: str, weights: Path | None = None, device: str = "cpu") -> Potential:
    """Returns the model, loaded once per process. Text that it prints while it loads is dropped.

    weights: a file; None for those in the package. All callers give the arguments by position, since the cache tells
    arguments by name apart from them.
    Raises SimulatorError bad_environment if its package is missing, or if its weights cannot be read, and UsageError
    for a model without weights."""
    factory = potential_factory(name)
    if weights is None and not factory.ships_weights:
        raise UsageError(f'potential "{name}" has no weights of its own; name a file (weights: FILE)')
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return factory(weights, device)
    except ImportError as error:
        detail = f"{factory.package} is not installed ({error}); pip install 'sciagent[mlff]', or the package of {name}"
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.IMPORT_FAILED, detail) from error
    # what packages raise for a file that has other weights or none
    except (OSError, pickle.UnpicklingError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        detail = f"{name} cannot read its weights: {type(error).__name__}: {error}"
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, detail[:500]) from error


@cache
def potential_versions(name: str) -> Mapping[str, str]:
    """Returns {distribution: version} of the distributions that contain a potential's package or that registered it.

    The first call of a process reads the metadata of all distributions, which takes a quarter of a second."""
    distributions = packages_distributions().get(potential_factory(name).package, [])
    versions = {distribution: version(distribution) for distribution in distributions}
    registering = getattr(_registered()[name], "dist", None)
    if registering:
        versions[registering.name] = registering.version
    return versions


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
