"""The registry of verifiers: the entry point group `sciagent.verifiers`, and verifiers that this process defines.

A verifier's class is checked against the contract; messages name the package and the faulty attribute.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_names
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.errors import UnknownNameError, UsageError
from sciagent.programs import Program
from sciagent.verification.sandbox.isolated_declarations import with_declarations_apart
from sciagent.verification.verifier_contract import (
    ANY_KIND,
    BaseVerifier,
    PropertyAtLevel,
    Settings,
    Verifier,
    WorldVerifier,
)

GROUP = "sciagent.verifiers"
OURS = "sciagent"  # the distribution whose verifiers may run their declarations in the driver's process


@cache
def installed(group: str, what: str) -> Mapping[str, EntryPoint]:
    """Returns the entry points of a group by name. what: their kind, for messages. Raises UsageError if two packages
    offer the same name."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        if point.name in points and points[point.name].value != point.value:
            raise UsageError(f'two installed packages offer a {what} named "{point.name}"; uninstall one')
        points[point.name] = point
    return points


def _points() -> Mapping[str, EntryPoint]:
    return installed(GROUP, "verifier")


@dataclass(frozen=True)
class Defined:
    """A verifier that this process has defined, without a package."""

    kind: type[Verifier[Any]]
    """The class of the verifier."""
    package: str
    """`NAME VERSION`, for the provenance of its evidence."""
    pickled: bytes
    """The pickle from which the processes that run jobs restore the verifier."""


@dataclass(frozen=True)
class SentVerifiers:
    """The verifiers that the driver's process has defined, in a process that runs jobs."""

    folder: Path
    """Their pickles."""
    restore: Callable[[bytes], object]
    """Defines the verifier of a pickle in this process."""


_defined: dict[str, Defined] = {}  # by name
_sent: list[SentVerifiers] = []  # empty in the driver's process, and one entry in a process that runs jobs
FOLDER = "functions"  # folder of the pickles
ENDING = ".pickle"
SHA256_DIGITS = 64
CODE = "code"  # the setting with the function's fingerprint, in verifiers made from functions


def define(name: str, made: Defined) -> None:
    """Registers a verifier of this process; it replaces an earlier one of the same name. Raises UsageError for the name
    of an installed verifier, and for a class that breaks the contract."""
    if name in _points():
        raise UsageError(f'"{name}" is a verifier of {provider(name)}; give yours another name')
    check_class(made.kind, name, made.package)
    _defined[name] = made
    verifier_class.cache_clear()


def send(folder: Path) -> None:
    """Writes the pickles of this process's verifiers to a folder, for a process that runs jobs."""
    for name, made in _defined.items():
        (folder / FOLDER).mkdir(exist_ok=True)
        (folder / FOLDER / f"{name}{ENDING}").write_bytes(made.pickled)


def receive(folder: Path, restore: Callable[[bytes], object]) -> None:
    """Sets the folder of the driver's pickles. Each is given to `restore` when its verifier is first used."""
    _sent[:] = [SentVerifiers(folder / FOLDER, restore)]


def is_function(settings: Mapping[str, Any]) -> bool:
    """Returns whether a verifier with these settings was made from a function: its `code` is a SHA-256."""
    fingerprint = str(settings.get(CODE, ""))
    return len(fingerprint) == SHA256_DIGITS


def defined() -> Mapping[str, Defined]:
    """Returns the verifiers that this process has defined, by name."""
    return _defined


def verifier_names() -> tuple[str, ...]:
    """Returns the sorted names of all installed and defined verifiers."""
    return tuple(sorted({*_points(), *_defined}))


@cache
def verifier_class(name: str) -> type[BaseVerifier[Any]]:
    """Returns the class of a verifier. A third-party class runs its declarations in a separate process (see
    `sandbox.isolated_declarations`). Raises UnknownNameError, or UsageError if its package does not load."""
    if name not in _defined:
        for sent in _sent:
            file = sent.folder / f"{name}{ENDING}"
            if file.is_file():
                sent.restore(file.read_bytes())  # calls `define`
    if name in _defined:
        return _defined[name].kind
    points = _points()
    if name not in points:
        raise UnknownNameError("verifier", name, verifier_names())
    try:
        loaded = points[name].load()
    except (Exception, SystemExit) as error:  # a plug-in may raise anything while it is imported
        what = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        raise UsageError(f'verifier "{name}" ({points[name].value}) does not load: {what}') from error
    kind = check_class(loaded, name, provider(name))
    dist = getattr(points[name], "dist", None)
    is_trusted = dist is None or dist.name == OURS
    return kind if is_trusted else with_declarations_apart(kind)


def provider(name: str) -> str:
    """Returns `package version` of the distribution that offers the verifier."""
    if name in _defined:
        return _defined[name].package
    return _distribution(_points()[name])


@cache
def _distribution(point: EntryPoint) -> str:
    """Returns `NAME VERSION` of the package that has the entry point."""
    dist = getattr(point, "dist", None)
    # the answer is cached, since both attributes read and parse the metadata of the package
    return f"{dist.name} {dist.version}" if dist else "unknown"


def check_class(verifier_type: object, name: str, package: str) -> type[BaseVerifier[Any]]:
    """Returns the class if it meets the contract. Raises UsageError with package, verifier and fault."""
    where = f'verifier "{name}" of {package}'
    if not (isinstance(verifier_type, type) and issubclass(verifier_type, Verifier | WorldVerifier)):
        raise UsageError(f"{where}: {verifier_type!r} is no subclass of Verifier or WorldVerifier")
    missing = sorted(verifier_type.__abstractmethods__)
    if missing:
        raise UsageError(f"{where}: {verifier_type.__name__} lacks {', '.join(missing)}")
    _check_names(verifier_type, name, where)
    tier: object = getattr(verifier_type, "tier", None)
    if not isinstance(tier, Tier):
        raise UsageError(f"{where}: tier must be a Tier, such as Tier.FAST, not {tier!r}")
    if (tier is Tier.WORLD) != issubclass(verifier_type, WorldVerifier):
        raise UsageError(f"{where}: a WorldVerifier is of the tier world, and a Verifier is not")
    kinds = (ANY_KIND, *subject_names())
    if verifier_type.kind not in kinds:
        raise UsageError(f"{where}: kind must be one of {', '.join(kinds)}, not {verifier_type.kind!r}")
    if verifier_type.opinion and (verifier_type.tier.order > Tier.SIMULATION.order or verifier_type.reusable):
        raise UsageError(f"{where}: an opinion is of the tier simulation at best, and not reusable")
    _check_programs(verifier_type, where)
    model: object = verifier_type.Settings
    if not (isinstance(model, type) and issubclass(model, Settings)):
        raise UsageError(f"{where}: Settings must be a subclass of sciagent.verification.verifier_contract.Settings")
    if not isinstance(inspect.getattr_static(verifier_type, "measures"), property | cached_property):
        raise UsageError(f"{where}: measures must be a property; write @property above it")
    return verifier_type


def _check_names(verifier_type: type[BaseVerifier[Any]], name: str, where: str) -> None:
    """Raises UsageError without a name and a version, or if the name is not that of the entry point."""
    for attribute in ("name", "version"):
        value = getattr(verifier_type, attribute, None)
        if not isinstance(value, str) or not value:
            raise UsageError(f'{where}: {attribute} must be a text such as "1", not {value!r}')
    if verifier_type.name != name:
        raise UsageError(
            f'{where}: its name is "{verifier_type.name}", but its entry point is "{name}"; they must be the same'
        )


def _check_programs(verifier_type: type[BaseVerifier[Any]], where: str) -> None:
    """Raises UsageError if the declared programs are not tuples of `Program`."""
    for attribute in ("programs", "optional_programs"):
        declared: object = getattr(verifier_type, attribute)
        if not isinstance(declared, tuple) or not all(isinstance(program, Program) for program in declared):
            raise UsageError(f"{where}: {attribute} must be a tuple of sciagent.programs.Program, not {declared!r:.80}")


def check_measures(verifier: BaseVerifier[Any], package: str) -> None:
    """Raises UsageError if a measured property is unregistered or is defined differently by another package."""
    registry = properties()
    where = f'verifier "{verifier.name}" of {package}'
    try:
        measures = tuple(verifier.measures)
    except Exception as error:  # a plug-in may raise anything
        raise UsageError(f"{where}: measures fails: {type(error).__name__}: {error}") from error
    for measure in measures:
        if not isinstance(measure, PropertyAtLevel):
            raise UsageError(f"{where}: measures holds a {type(measure).__name__}; use at(LEVEL, PROPERTY, ...)")
        prop = measure.property
        if prop.name not in registry:
            raise UsageError(
                f'{where}: it measures "{prop.name}", which no package registers; add it to the entry points '
                f"sciagent.properties"
            )
        if registry[prop.name] != prop:
            fault = f"another definition than that of {registry.provider(prop.name)}"
            for clash in registry.clashes:
                if clash.set_aside == prop:
                    fault = str(clash)
                    break
            raise UsageError(f"{where}: property {prop.name}: {fault}; give yours another name")
