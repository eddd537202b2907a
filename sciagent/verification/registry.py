"""The registry of verifiers: the entry point group `sciagent.verifiers`, ours and third parties' alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from sciagent.errors import UnknownNameError, UsageError
from sciagent.verification.checks import check_class
from sciagent.verification.contract import Verifier
from sciagent.verification.sandbox.declarations import asked_apart

GROUP = "sciagent.verifiers"
OURS = "sciagent"  # the distribution whose verifiers are trusted to declare what they do in the driver's process


@cache
def installed(group: str, what: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name. what: how messages call them. Raises UsageError where two packages offer the
    same name."""
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
    """A verifier that this process has made, without a package."""

    kind: type[Verifier[Any]]
    """Its class."""
    package: str
    """`NAME VERSION`, for the provenance of its evidence."""
    pickled: bytes
    """What the processes that run jobs make it from again."""


_defined: dict[str, Defined] = {}
_sent: list[Path] = []  # the folder with what the starting process has made
FOLDER, ENDING = "functions", ".pickle"
CODE = "code"  # the setting of a verifier made of a function that holds the function's fingerprint


def define(name: str, made: Defined) -> None:
    """Register a verifier of this process; the same name again takes its place. Raises UsageError for the name of an
    installed verifier, and for what does not keep to the contract."""
    if name in _points():
        raise UsageError(f'"{name}" is a verifier of {provider(name)}; give yours another name')
    check_class(made.kind, name, made.package)
    _defined[name] = made
    verifier_class.cache_clear()


def send(folder: Path) -> None:
    """Write what this process has made where a process that runs jobs will look for it."""
    for name, made in _defined.items():
        (folder / FOLDER).mkdir(exist_ok=True)
        (folder / FOLDER / f"{name}{ENDING}").write_bytes(made.pickled)


def receive(folder: Path) -> None:
    """Find what the starting process has sent to this folder; nothing of it is loaded before it is asked for."""
    _sent[:] = [folder / FOLDER]


def is_function(settings: Mapping[str, Any]) -> bool:
    """Whether a verifier with these settings was made of a function."""
    return len(str(settings.get(CODE, ""))) == 64


def defined() -> Mapping[str, Defined]:
    """The verifiers that this process has made."""
    return _defined


def verifier_names() -> tuple[str, ...]:
    return tuple(sorted({*_points(), *_defined}))


@cache
def verifier_class(name: str) -> type[Verifier[Any]]:
    """The class behind a name. One of a third party is asked for what it declares in a process of its own (see
    `sandbox.declarations`). Raises UnknownNameError, or UsageError when its package does not load."""
    if name not in _defined and any((file := folder / f"{name}{ENDING}").is_file() for folder in _sent):
        from sciagent.verification.functions import restore

        restore(file.read_bytes())
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
    return kind if dist is None or dist.name == OURS else asked_apart(kind)


def provider(name: str) -> str:
    """`package version` of the distribution that offers the verifier."""
    if name in _defined:
        return _defined[name].package
    dist = getattr(_points()[name], "dist", None)
    return f"{dist.name} {dist.version}" if dist else "unknown"
