"""The registry of potentials: the entry point group `sciagent.potentials`, with a loaded model per process."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from pathlib import Path

from sciagent.domain.outcomes import Outcome, Reason
from sciagent.errors import SimulatorError, UnknownNameError, UsageError
from sciagent_simulators.potentials.potential import Potential, PotentialFactory

GROUP = "sciagent.potentials"
GPU_FILES = ("/dev/nvidiactl", "/dev/kfd")


@cache
def _points() -> Mapping[str, EntryPoint]:
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if point.name in points and points[point.name].value != point.value:
            raise UsageError(f'two installed packages offer a potential named "{point.name}"; uninstall one')
        points[point.name] = point
    return points


def potential_names() -> tuple[str, ...]:
    """Returns the sorted names of all installed potentials."""
    return tuple(sorted(_points()))


@cache
def factory(name: str) -> PotentialFactory:
    """Returns what a package declares about a potential; no model is loaded.

    Raises UnknownNameError, or UsageError if the package does not load or offers something else."""
    if name not in _points():
        raise UnknownNameError("potential", name, potential_names())
    try:
        loaded = _points()[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f'potential "{name}" ({_points()[name].value}) does not load: {error}') from error
    if not isinstance(loaded, PotentialFactory) or loaded.name != name:
        raise UsageError(f'potential "{name}": {_points()[name].value} is no PotentialFactory of that name')
    return loaded


@lru_cache(maxsize=4)
def load(name: str, weights: Path | None = None, device: str = "cpu") -> Potential:
    """Returns the model, loaded once per process. What it prints is dropped.

    Raises SimulatorError bad_environment if its package is missing, or if its weights cannot be read."""
    made = factory(name)
    if weights is None and not made.ships_weights:
        raise UsageError(f'potential "{name}" has no weights of its own; name a file (weights: FILE)')
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return made(weights, device)
    except ImportError as error:
        detail = f"{made.package} is not installed ({error}); pip install 'sciagent[mlff]', or the package of {name}"
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.IMPORT_FAILED, detail) from error
    except (OSError, pickle.UnpicklingError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        detail = f"{name} cannot read its weights: {type(error).__name__}: {error}"
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, detail[:500]) from error


@cache
def versions(name: str) -> Mapping[str, str]:
    """Returns the versions of the installed distributions with a potential's package, and of who registered it. The
    first call of a process reads the metadata of all distributions, which takes a quarter of a second."""
    found = packages_distributions().get(factory(name).package, [])
    own = getattr(_points()[name], "dist", None)
    return {distribution: version(distribution) for distribution in found} | ({own.name: own.version} if own else {})


def available_device() -> str:
    """Returns `cuda` if this process was given a GPU and PyTorch can use it, else `cpu`."""
    if not os.environ.get("CUDA_VISIBLE_DEVICES"):  # the host sets it for jobs that hold a GPU
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def is_fork_safe() -> bool:
    """Returns whether a model may run before a fork: on a machine with a GPU, PyTorch starts threads at the first
    gradient, which children lack."""
    import torch

    return (torch.version.cuda or torch.version.hip) is None or not any(Path(file).exists() for file in GPU_FILES)
