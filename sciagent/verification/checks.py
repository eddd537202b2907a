"""Checks of verifier classes against the contract. Messages name the package and the faulty attribute."""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from sciagent.domain.properties import properties
from sciagent.domain.tiers import Tier
from sciagent.errors import UsageError
from sciagent.verification.contract import PropertyAtLevel, Settings, Verifier

KINDS = ("molecule", "crystal")


def check_class(verifier_type: object, name: str, package: str) -> type[Verifier[Any]]:
    """Returns the class if it meets the contract. Raises UsageError with package, verifier and fault."""
    where = f'verifier "{name}" of {package}'
    if not (isinstance(verifier_type, type) and issubclass(verifier_type, Verifier)):
        raise UsageError(f"{where}: {verifier_type!r} is no subclass of Verifier")
    if missing := sorted(verifier_type.__abstractmethods__):
        raise UsageError(f"{where}: {verifier_type.__name__} lacks {', '.join(missing)}")
    _check_names(verifier_type, name, where)
    tier: object = getattr(verifier_type, "tier", None)
    if not isinstance(tier, Tier):
        raise UsageError(f"{where}: tier must be a Tier, such as Tier.FAST, not {tier!r}")
    if verifier_type.kind not in KINDS:
        raise UsageError(f"{where}: kind must be one of {', '.join(KINDS)}, not {verifier_type.kind!r}")
    if verifier_type.opinion and (verifier_type.tier.order > Tier.SIMULATION.order or verifier_type.reusable):
        raise UsageError(f"{where}: an opinion is of the tier simulation at best, and not reusable")
    model: object = verifier_type.Settings
    if not (isinstance(model, type) and issubclass(model, Settings)):
        raise UsageError(f"{where}: Settings must be a subclass of sciagent.verification.contract.Settings")
    if not isinstance(inspect.getattr_static(verifier_type, "measures"), property | cached_property):
        raise UsageError(f"{where}: measures must be a property; write @property above it")
    return verifier_type


def _check_names(verifier_type: type[Verifier[Any]], name: str, where: str) -> None:
    for attribute in ("name", "version"):
        value = getattr(verifier_type, attribute, None)
        if not isinstance(value, str) or not value:
            raise UsageError(f'{where}: {attribute} must be a text such as "1", not {value!r}')
    if verifier_type.name != name:
        raise UsageError(
            f'{where}: its name is "{verifier_type.name}", but its entry point is "{name}"; they must be the same'
        )


def check_defaults(verifier_type: type[Verifier[Any]], package: str) -> None:
    """Checks the measures of an instance with default settings; a class whose settings lack defaults passes.

    Raises UsageError as `check_measures` does.
    """
    try:
        verifier = verifier_type()
    except (ValidationError, OSError):
        return  # settings are required; a campaign that has them calls `check_measures`
    check_measures(verifier, package)


def check_measures(verifier: Verifier[Any], package: str) -> None:
    """Raises UsageError if a measured property is unregistered or is defined differently by another package."""
    registry, where = properties(), f'verifier "{verifier.name}" of {package}'
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
            clash = next((c for c in registry.clashes if c.set_aside == prop), None)
            against = str(clash) if clash else f"another definition than that of {registry.provider(prop.name)}"
            raise UsageError(f"{where}: property {prop.name}: {against}; give yours another name")
