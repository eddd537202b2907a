"""Machine-learnt models that packages register under an entry point group: what they declare, and loading them.

A package registers a factory. It declares the model without importing the model's code, so that a campaign file can be
checked where the package is not installed.
"""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from pathlib import Path
from typing import Protocol, TypeVar

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError, UnknownNameError, UsageError

Model = TypeVar("Model", covariant=True)


class ModelFactory(Protocol[Model]):
    """The declaration of a model that a package registers; it loads the model when it is called."""

    @property
    def name(self) -> str:
        """Name in campaign files, equal to that of the entry point."""
        ...

    @property
    def package(self) -> str:
        """The import package with the model, whose version belongs to the provenance."""
        ...

    @property
    def ships_weights(self) -> bool:
        """Whether the package contains weights. If not, a campaign has to name a file."""
        ...

    def __call__(self, weights: Path | None, device: str) -> Model: ...


Factory = TypeVar("Factory", bound="ModelFactory[object]")


@cache
def registered_models(group: str, noun: str) -> Mapping[str, EntryPoint]:
    """Returns {name of a model: its entry point}. noun: what the models are called in messages.

    Raises UsageError for a name that two packages register."""
    registered: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        if point.name in registered and registered[point.name].value != point.value:
            raise UsageError(f'two installed packages offer a {noun} named "{point.name}"; uninstall one')
        registered[point.name] = point
    return registered


def declared_model(group: str, noun: str, name: str, kind: type[Factory]) -> Factory:
    """Returns what a package declares about a model; no model is loaded. kind: the class of the factories of the group.

    Raises UnknownNameError, or UsageError if the package does not load or offers something else."""
    registered = registered_models(group, noun)
    if name not in registered:
        raise UnknownNameError(noun, name, tuple(sorted(registered)))
    point = registered[name]
    try:
        loaded = point.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f'{noun} "{name}" ({point.value}) does not load: {error}') from error
    if not isinstance(loaded, kind) or loaded.name != name:
        raise UsageError(f'{noun} "{name}": {point.value} is no {kind.__name__} of that name')
    return loaded


def load_model(factory: ModelFactory[Model], weights: Path | None, device: str, noun: str, extra: str) -> Model:
    """Returns the loaded model. Text that it prints while it loads is dropped.

    weights: a file; None for those in the package. extra: the extra of sciagent with the shipped models' packages.
    Raises SimulatorError bad_environment if its package is missing, or if its weights cannot be read, and UsageError
    for a model without weights."""
    name = factory.name
    if weights is None and not factory.ships_weights:
        raise UsageError(f'{noun} "{name}" has no weights of its own; name a file (weights: FILE)')
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return factory(weights, device)
    except ImportError as error:
        package = f"pip install 'sciagent[{extra}]', or the package of {name}"
        detail = f"{factory.package} is not installed ({error}); {package}"
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.IMPORT_FAILED, detail) from error
    # what packages raise for a file that has other weights or none
    except (OSError, pickle.UnpicklingError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        detail = f"{name} cannot read its weights: {type(error).__name__}: {error}"
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, detail[:500]) from error


def model_versions(group: str, noun: str, name: str, package: str) -> Mapping[str, str]:
    """Returns {distribution: version} of the distributions that contain a model's package or that registered it.

    The first call of a process reads the metadata of all distributions, which takes a quarter of a second."""
    distributions = packages_distributions().get(package, [])
    versions = {distribution: version(distribution) for distribution in distributions}
    registering = getattr(registered_models(group, noun)[name], "dist", None)
    if registering:
        versions[registering.name] = registering.version
    return versions
