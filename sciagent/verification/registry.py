"""The registry of verifiers: the entry point group `sciagent.verifiers`, ours and third parties' alike."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sciagent.errors import UnknownNameError, UsageError
from sciagent.verification.checks import check_class
from sciagent.verification.contract import Verifier
from sciagent.verification.sandbox.declarations import asked_apart

GROUP = "sciagent.verifiers"
OURS = "sciagent"  # the distribution whose verifiers are trusted to declare what they do in the driver's process


@cache
def _points() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if point.name in found and found[point.name].value != point.value:
            raise UsageError(f'two installed packages offer a verifier named "{point.name}"; uninstall one')
        found[point.name] = point
    return found


def verifier_names() -> tuple[str, ...]:
    return tuple(sorted(_points()))


@cache
def verifier_class(name: str) -> type[Verifier[Any]]:
    """The class behind a name. One of a third party is asked for what it declares in a process of its own (see
    `sandbox.declarations`). Raises UnknownNameError, or UsageError when its package does not load."""
    points = _points()
    if name not in points:
        raise UnknownNameError("verifier", name, points)
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
    dist = getattr(_points()[name], "dist", None)
    return f"{dist.name} {dist.version}" if dist else "unknown"
