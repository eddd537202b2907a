"""A verifier from a function: for who has a model of their own in a notebook or a script.

    @sciagent.verifier(measures="solubility", unit="mol/L", cost=0.5)
    def my_solubility(molecule, scale=1.0):
        return scale * model.predict([molecule.smiles])[0], 0.2

The function is frozen when it is decorated, with what it uses: that is what the processes of the jobs run, and what the
fingerprint in its settings is taken of. A changed function is another method, and its evidence other evidence.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

import cloudpickle
from pydantic import create_model

from sciagent.domain.properties import Property, PropertyAtLevel, at, properties
from sciagent.domain.quantities import convert
from sciagent.errors import UsageError, did_you_mean
from sciagent.verification import registry
from sciagent.verification.contract import (
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    Quantity,
    Reason,
    Refusal,
    Settings,
    Tier,
    Verifier,
)
from sciagent.verification.fingerprint import code_of
from sciagent.verification.registry import CODE

__all__ = ["FunctionVerifier", "VerifierFunction", "restore", "verifier"]

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,63}")
TIERS = {str(tier): tier for tier in (Tier.FAST, Tier.SIMULATION, Tier.HIGH_FIDELITY)}


@dataclass(frozen=True)
class Definition:
    """All that makes a verifier of a function; what is sent to the processes that run jobs."""

    function: Callable[..., Any]
    """Called with a `Molecule` and its settings."""
    name: str
    """Name of the verifier."""
    version: str
    """Raised by its author when the numbers change although the code does not."""
    tier: str
    """`fast`, `simulation` or `high_fidelity`."""
    units: Mapping[str, str]
    """{property: the unit that the function returns}."""
    properties: tuple[Property, ...]
    """Definitions of these properties, in the same order."""
    method: str
    """Method of the level that its values are of."""
    cost: float | Callable[[Any], float]
    """Expected core-seconds of one candidate, or a function of the candidate."""
    code: str
    """Fingerprint of the function and of what it uses."""
    preload: tuple[str, ...]
    """Modules that are imported once for all jobs."""


class FunctionVerifier(Verifier[Any]):
    """Base of the verifiers that are made of functions."""

    definition: ClassVar[Definition]

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level(method=self.definition.method), *self.definition.properties)

    def cost(self, candidate: Any) -> Cost:
        declared = self.definition.cost
        return Cost(core_seconds=float(declared(candidate) if callable(declared) else declared))

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        for candidate in batch:
            yield self._one(candidate)

    def _one(self, candidate: Any) -> Finding:
        given = {name: getattr(self.settings, name) for name in type(self.settings).model_fields if name != CODE}
        answer = self.definition.function(candidate, **given)
        if isinstance(answer, Refusal):
            return Finding(candidate.key, Outcome.REFUSED, reason=answer.reason, detail=answer.detail)
        numbers = _numbers(answer, self.definition)
        if bad := [name for name, (value, _) in numbers.items() if not math.isfinite(value)]:
            detail = f"{bad[0]} is {numbers[bad[0]][0]}"
            return Finding(candidate.key, Outcome.IMPLAUSIBLE, reason=Reason.NOT_FINITE, detail=detail)
        level = Level(method=self.definition.method)
        measured = [
            Measured(prop.name, level, convert(Quantity(value, self.definition.units[prop.name], spread), prop))
            for prop in self.definition.properties
            if prop.name in numbers
            for value, spread in [numbers[prop.name]]
        ]
        return Finding(candidate.key, Outcome.OK, tuple(measured))


class VerifierFunction:
    """A function under `sciagent.verifier`: called as before, and a rung of a ladder under its name.

    Called with a SMILES instead of a molecule, it reads it first.
    """

    def __init__(self, definition: Definition, kind: type[FunctionVerifier]) -> None:
        functools.update_wrapper(self, definition.function)
        self.definition = definition
        self.kind = kind
        self.verifier_name = definition.name

    def __call__(self, candidate: Any, **settings: Any) -> Any:
        if isinstance(candidate, str):
            from sciagent.chemistry.molecule import parse_molecule

            candidate = parse_molecule(candidate)
        return self.definition.function(candidate, **settings)

    def __repr__(self) -> str:
        made = self.definition
        measured = ", ".join(f"{name} [{unit}]" for name, unit in made.units.items())
        return f"verifier {made.name} {made.version}+{made.code[:8]} ({made.tier}): {measured}"


@overload
def verifier(function: Callable[..., Any], /) -> VerifierFunction: ...


@overload
def verifier(
    *,
    measures: str | Property | Sequence[str | Property] | Mapping[str, str],
    unit: str | None = None,
    version: str = "1",
    name: str | None = None,
    tier: str = "simulation",
    cost: float | Callable[[Any], float] = 1.0,
    method: str | None = None,
    description: str = "",
    low: float | None = None,
    high: float | None = None,
    preload: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], VerifierFunction]: ...


def verifier(
    function: Callable[..., Any] | None = None,
    /,
    *,
    measures: str | Property | Sequence[str | Property] | Mapping[str, str] | None = None,
    unit: str | None = None,
    version: str = "1",
    name: str | None = None,
    tier: str = "simulation",
    cost: float | Callable[[Any], float] = 1.0,
    method: str | None = None,
    description: str = "",
    low: float | None = None,
    high: float | None = None,
    preload: Sequence[str] = (),
) -> VerifierFunction | Callable[[Callable[..., Any]], VerifierFunction]:
    """Make a verifier of a function; a ladder then takes it: `ladder=[{"verifier": my_solubility}]`.

    The function is called with a molecule, which has `smiles`, `mol` (of RDKit, not to be changed), `charge`,
    `multiplicity`, `n_atoms`, `heavy_atoms` and `formula`. Its further parameters need defaults: they are the settings
    of the rung. It returns a number, a pair of number and standard uncertainty, a dictionary of either by property, or
    a `Refusal`. What it raises is recorded as the candidate's error.

    measures: a property, known or new; several; or {property: unit}. unit: that the function returns; a pure number
    without one. version: raise it when the numbers change although the code does not, such as after training a model
    again. name: by default the function's. tier: `fast` for milliseconds; `simulation` and `high_fidelity` become jobs.
    cost: expected core-seconds, or a function of the molecule. method: of the level, by default the name.
    description, low, high: of a new property; limits of what is plausible. preload: modules to import once.

    Raises UsageError, with what would be right.
    """
    if function is not None or measures is None:
        raise UsageError(
            '@sciagent.verifier needs to know what is measured: @sciagent.verifier(measures="...", unit="...")'
        )

    def decorate(given: Callable[..., Any]) -> VerifierFunction:
        called = str(name or getattr(given, "__name__", ""))
        where = f"verifier {called!r}"
        if not callable(given) or not NAME.fullmatch(called):
            raise UsageError(f"{where}: give it a name of letters, digits, dots and underscores, with name=")
        if tier not in TIERS:
            raise UsageError(f'{where}: tier="{tier}"{did_you_mean(tier, TIERS)}; one of {", ".join(TIERS)}')
        if not callable(cost) and not (math.isfinite(cost) and cost >= 0):
            raise UsageError(f"{where}: cost={cost}: core-seconds, a finite number of at least 0")
        units = _units(measures, unit, where)
        made = Definition(
            given,
            called,
            version,
            tier,
            units,
            tuple(_property(measure, units, description, low, high, where) for measure in _asked(measures)),
            method or called,
            cost,
            code_of(given, where),
            tuple(preload),
        )
        kind = _kind(made, where)
        for prop in made.properties:
            properties().add(prop, _package(made))
        registry.define(called, registry.Defined(kind, _package(made), _pickled(made, where)))
        return VerifierFunction(made, kind)

    return decorate


def restore(pickled: bytes) -> None:
    """Define a verifier here as the process that sent it has defined it."""
    places, inner = cloudpickle.loads(pickled)
    sys.path += [place for place in places if place not in sys.path]
    made: Definition = cloudpickle.loads(inner)
    for prop in made.properties:
        properties().add(prop, _package(made))
    registry.define(made.name, registry.Defined(_kind(made, made.name), _package(made), pickled))


def _pickled(made: Definition, where: str) -> bytes:
    """By value, with what it uses of its own module; other modules are found again on the same paths."""
    module = sys.modules.get(getattr(made.function, "__module__", "") or "")
    by_value = module is not None and module.__name__ != "__main__"
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        inner = cloudpickle.dumps(made)
    except Exception as error:  # whatever it closes over decides what goes wrong
        raise UsageError(
            f"{where}: it cannot be sent to the processes of the jobs: {type(error).__name__}: {error}; open files, "
            "locks and connections inside the function instead"
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return cloudpickle.dumps(([str(Path(place).resolve()) for place in sys.path], inner))  # type: ignore[no-any-return]


def _kind(made: Definition, where: str) -> type[FunctionVerifier]:
    fields: dict[str, Any] = {CODE: (Literal[made.code], made.code)}
    for parameter in list(inspect.signature(made.function).parameters.values())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(f"{where}: *{parameter.name} is no setting; name every parameter")
        if parameter.default is parameter.empty or parameter.name == CODE:
            raise UsageError(
                f"{where}: the parameter {parameter.name!r} is a setting, and needs "
                + ("another name" if parameter.name == CODE else "a default")
            )
        hint = type(parameter.default) if isinstance(parameter.annotation, str) else parameter.annotation
        fields[parameter.name] = (Any if hint is parameter.empty else hint, parameter.default)
    settings = create_model("FunctionSettings", __base__=Settings, **fields)
    attributes = {
        "__module__": __name__,
        "__doc__": made.function.__doc__,
        "name": made.name,
        "version": made.version,
        "tier": TIERS[made.tier],
        "Settings": settings,
        "preload": made.preload,
        "definition": made,
    }
    return type("FunctionVerifier_" + made.name.replace(".", "_"), (FunctionVerifier,), attributes)


def _package(made: Definition) -> str:
    """For the provenance: `function 1+3fa2c1d09b5e`."""
    return f"{FUNCTION}{made.name} {made.version}+{made.code[:12]}"


FUNCTION = "function:"
Measures = str | Property | Sequence[str | Property] | Mapping[str, str]


def _asked(measures: Measures) -> list[str | Property]:
    return [measures] if isinstance(measures, str | Property) else list(measures)


def _units(measures: Measures, unit: str | None, where: str) -> dict[str, str]:
    if isinstance(measures, Mapping):
        if unit is not None:
            raise UsageError(f"{where}: the units are among measures already; leave unit out")
        return dict(measures)
    asked = _asked(measures)
    if not asked:
        raise UsageError(f"{where}: measures is empty; name a property")
    units = {}
    for measure in asked:
        known = measure if isinstance(measure, Property) else _known(measure)
        units[measure.name if isinstance(measure, Property) else measure] = unit or (known.unit if known else "1")
    return units


def _known(name: str) -> Property | None:
    """A property of the house or of an installed package."""
    registered = properties()
    if name not in registered or registered.provider(name).startswith(FUNCTION):
        return None
    return registered[name]


def _property(
    asked: str | Property, units: Mapping[str, str], description: str, low: float | None, high: float | None, where: str
) -> Property:
    name = asked if isinstance(asked, str) else asked.name
    known = asked if isinstance(asked, Property) else _known(name)
    if known is None:
        return Property(name, (units[name],), description or f"by {where}", low=low, high=high)
    if units[name] not in known.units:
        raise UsageError(
            f'{where}: {name} is not given in "{units[name]}"{did_you_mean(units[name], known.units)}; it takes: '
            f"{', '.join(known.units)}"
        )
    return known


def _numbers(answer: Any, made: Definition) -> dict[str, tuple[float, float | None]]:
    """{property: (value, uncertainty)}. Raises TypeError for what is none of the three."""
    if isinstance(answer, Mapping):
        if unknown := [name for name in answer if name not in made.units]:
            raise ValueError(f"it returned {unknown[0]!r}, and measures {', '.join(made.units)}")
        return {name: _pair(pair) for name, pair in answer.items()}
    if len(made.units) > 1:
        raise TypeError(f"it measures {', '.join(made.units)}: return a dictionary, not a {type(answer).__name__}")
    return {next(iter(made.units)): _pair(answer)}


def _pair(answer: Any) -> tuple[float, float | None]:
    if isinstance(answer, tuple | list):
        if len(answer) != 2:
            raise TypeError(f"it returned {len(answer)} numbers: return a number, or a pair (value, uncertainty)")
        value, spread = answer
        return float(value), None if spread is None else float(spread)
    if answer is None:
        raise TypeError("it returned nothing: return a number, a pair (value, uncertainty), or a Refusal")
    return float(answer), None
