"""Verifiers made from functions, such as a user's own model in a notebook or a script.

    @sciagent.verifier(measures="solubility", unit="mol/L", cost=0.5)
    def my_solubility(molecule, scale=1.0):
        return scale * model.predict([molecule.smiles])[0], 0.2

The function and all that it uses are pickled when it is decorated. The jobs run this copy, and its fingerprint is a
setting: a hash of its code that ignores comments, layout and file names. A changed function has another fingerprint, so
old evidence is not reused.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, Literal

import cloudpickle
from pydantic import create_model

from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Measured, text_hash
from sciagent.domain.ladder import Tier
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.properties import Level, Property, PropertyAtLevel, at, properties
from sciagent.domain.quantities import Quantity, convert
from sciagent.errors import UsageError, did_you_mean
from sciagent.verification import registry
from sciagent.verification.contract import Context, Finding, Refusal, Settings, Verifier
from sciagent.verification.registry import CODE

PLAIN = (bool, int, float, complex, str, bytes, type(None))


def code_of(function: Callable[..., Any], where: str) -> str:
    """Returns the SHA-256 of the function's source, of called functions of its module, and of constants and arrays.

    Any other object that it uses, such as a trained model, enters by its type only. Raises UsageError for an undefined
    name. where: the verifier's name in that message.
    """
    seen: dict[str, str] = {}
    _visit(function, where, seen)
    return text_hash("\n".join(f"{name}\n{text}" for name, text in sorted(seen.items())))


def _visit(function: Any, where: str, seen: dict[str, str]) -> None:
    if not isinstance(function, FunctionType):
        seen[getattr(function, "__qualname__", type(function).__name__)] = _described(function)
        return
    if function.__qualname__ in seen:
        return
    seen[function.__qualname__] = _source(function)
    for name, value in _used(function, where):
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            _visit(value, where, seen)
        elif value is not function:
            seen[f"{function.__qualname__}: {name}"] = _described(value)


def _used(function: FunctionType, where: str) -> Iterator[tuple[str, Any]]:
    """Yields (name, value) of the globals and the enclosing functions' variables that the function uses."""
    for name in sorted(set(_global_names(function.__code__))):
        if name in function.__globals__:
            yield name, function.__globals__[name]
        elif not hasattr(builtins, name) and name != function.__name__:
            raise UsageError(f"{where}: it uses {name!r}, which is not there yet; define it above the function")
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the cell is still empty: a function that calls itself
            continue


def _global_names(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _source(function: FunctionType) -> str:
    """Returns the source without comments, layout, decorators and docstring, or the bytecode if there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # made by exec, or a lambda within an expression
        return _bytecode(function.__code__) + repr(function.__defaults__)
    defined = tree.body[0]
    if isinstance(defined, ast.FunctionDef | ast.AsyncFunctionDef):
        defined.decorator_list = []
        if ast.get_docstring(defined) is not None:
            defined.body = defined.body[1:] or [ast.Pass()]
    return ast.unparse(defined)


def _bytecode(code: CodeType) -> str:
    inner = [_bytecode(constant) if isinstance(constant, CodeType) else repr(constant) for constant in code.co_consts]
    return f"{code.co_code.hex()} {inner} {code.co_names}"


def _described(value: Any) -> str:
    """Returns the value of plain data and arrays, the name of classes and functions, and the type of other objects."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(_described, value))})"
    if isinstance(value, dict):
        return f"dict({sorted((_described(key), _described(item)) for key, item in value.items())})"
    if isinstance(value, set | frozenset):
        return f"set({sorted(map(_described, value))})"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):  # an array of NumPy
        return f"array {value.dtype} {value.shape} {text_hash(value.tobytes().hex())}"
    if isinstance(value, type | FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return f"a {type(value).__module__}.{type(value).__qualname__}"


Measures = str | Property | Sequence[str | Property] | Mapping[str, str]
FUNCTION = "function:"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,63}")
TIERS = {str(tier): tier for tier in (Tier.FAST, Tier.SIMULATION, Tier.HIGH_FIDELITY)}


@dataclass(frozen=True)
class Definition:
    """A verifier made from a function, in the form that is sent to the processes that run jobs."""

    function: Callable[..., Any]
    """The function; its arguments are a `Molecule` and the settings."""
    name: str
    """Name of the verifier."""
    version: str
    """The author increases it when the numbers change although the code does not."""
    tier: str
    """`fast`, `simulation` or `high_fidelity`."""
    units: Mapping[str, str]
    """{property: unit of the returned value}."""
    properties: tuple[Property, ...]
    """Definitions of these properties, in the same order."""
    method: str
    """Method of the level of its values."""
    cost: float | Callable[[Any], float]
    """Expected core-seconds per candidate, or a function of the candidate that returns them."""
    code: str
    """Fingerprint of the function and of all that it uses."""
    preload: tuple[str, ...]
    """Modules that are imported once for all jobs."""


class FunctionVerifier(Verifier[Any]):
    """The base class of verifiers made from functions."""

    definition: ClassVar[Definition]

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level(method=self.definition.method), *self.definition.properties)

    def cost(self, candidate: Any) -> Cost:
        declared = self.definition.cost
        return Cost(core_seconds=float(declared(candidate) if callable(declared) else declared))

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        yield from map(self._finding, batch)

    def _finding(self, candidate: Any) -> Finding:
        given = {name: getattr(self.settings, name) for name in type(self.settings).model_fields if name != CODE}
        answer = self.definition.function(candidate, **given)
        if isinstance(answer, Refusal):
            return Finding(candidate.key, Outcome.REFUSED, reason=answer.reason, detail=answer.detail)
        numbers = _numbers(answer, self.definition)
        if bad := [name for name, (value, _) in numbers.items() if not math.isfinite(value)]:
            detail = f"{bad[0]} is {numbers[bad[0]][0]}"
            return Finding(candidate.key, Outcome.IMPLAUSIBLE, reason=Reason.NOT_FINITE, detail=detail)
        level = Level(method=self.definition.method)
        measured = []
        for prop in self.definition.properties:
            if prop.name in numbers:
                value, spread = numbers[prop.name]
                quantity = Quantity(value, self.definition.units[prop.name], spread)
                measured.append(Measured(prop.name, level, convert(quantity, prop)))
        return Finding(candidate.key, Outcome.OK, tuple(measured))


class VerifierFunction:
    """A function decorated by `sciagent.verifier`: still callable, and usable as a rung of a ladder.

    It also accepts a SMILES instead of a molecule.
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
        definition = self.definition
        measured = ", ".join(f"{name} [{unit}]" for name, unit in definition.units.items())
        return f"verifier {definition.name} {definition.version}+{definition.code[:8]} ({definition.tier}): {measured}"


def verifier(
    *,
    measures: Measures,
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
) -> Callable[[Callable[..., Any]], VerifierFunction]:
    """Makes a verifier from a function, for use in a ladder: `ladder=[{"verifier": my_solubility}]`.

    The function is called with a molecule, which has `smiles`, `mol` (RDKit, do not change it), `charge`,
    `multiplicity`, `n_atoms`, `heavy_atoms` and `formula`. Further parameters need defaults; they are the settings of
    the rung. It returns a number, a pair (number, standard uncertainty), a dictionary of either by property, or a
    `Refusal`. An exception is recorded as the candidate's error.

    measures: a property, known or new; several; or {property: unit}. unit: unit of the returned value, None for a pure
    number. version: raise it when the numbers change although the code does not, for example after retraining a model.
    name: default: the function's. tier: `fast` for milliseconds; `simulation` and `high_fidelity` run as jobs.
    cost: expected core-seconds, or a function of the molecule. method: method of the level; default: the name.
    description, low, high: description and plausible limits of a new property. preload: modules to import once.

    Raises UsageError; its message says what is accepted.
    """

    def decorate(given: Callable[..., Any]) -> VerifierFunction:
        called = str(name or getattr(given, "__name__", ""))
        where = f"verifier {called!r}"
        if not callable(given) or not NAME.fullmatch(called):
            raise UsageError(f"{where}: give it a name of letters, digits, dots and underscores, with name=")
        if tier not in TIERS:
            raise UsageError(f'{where}: tier="{tier}"{did_you_mean(tier, TIERS)}; one of {", ".join(TIERS)}')
        if not callable(cost) and not (math.isfinite(cost) and cost >= 0):
            raise UsageError(f"{where}: cost={cost}: core-seconds, a finite number of at least 0")
        units, defined = _properties(measures, unit, description, low, high, where)
        code = code_of(given, where)
        modules = tuple(preload)
        definition = Definition(given, called, version, tier, units, defined, method or called, cost, code, modules)
        return VerifierFunction(definition, _register(definition, _pickled(definition, where), where))

    return decorate


def _register(definition: Definition, pickled: bytes, where: str) -> type[FunctionVerifier]:
    package = f"{FUNCTION}{definition.name} {definition.version}+{definition.code[:12]}"  # for the provenance
    kind = _kind(definition, where)
    for prop in definition.properties:
        properties().add(prop, package)
    registry.define(definition.name, registry.Defined(kind, package, pickled))
    return kind


def restore(pickled: bytes) -> None:
    """Defines a verifier in this process from the pickle of another process."""
    places, inner = cloudpickle.loads(pickled)
    sys.path += [place for place in places if place not in sys.path]
    definition: Definition = cloudpickle.loads(inner)
    _register(definition, pickled, definition.name)


def _pickled(definition: Definition, where: str) -> bytes:
    """Returns the definition pickled by value, with its own module's objects; other modules are imported by path."""
    module = sys.modules.get(getattr(definition.function, "__module__", "") or "")
    by_value = module is not None and module.__name__ != "__main__"
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        inner = cloudpickle.dumps(definition)
    except Exception as error:  # whatever it closes over decides what goes wrong
        raise UsageError(
            f"{where}: it cannot be sent to the processes of the jobs: {type(error).__name__}: {error}; open files, "
            "locks and connections inside the function instead"
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return cloudpickle.dumps(([str(Path(place).resolve()) for place in sys.path], inner))  # type: ignore[no-any-return]


def _kind(definition: Definition, where: str) -> type[FunctionVerifier]:
    fields: dict[str, Any] = {CODE: (Literal[definition.code], definition.code)}
    for parameter in list(inspect.signature(definition.function).parameters.values())[1:]:
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
        "__doc__": definition.function.__doc__,
        "name": definition.name,
        "version": definition.version,
        "tier": TIERS[definition.tier],
        "Settings": settings,
        "preload": definition.preload,
        "definition": definition,
    }
    return type("FunctionVerifier_" + definition.name.replace(".", "_"), (FunctionVerifier,), attributes)


def _properties(
    measures: Measures, unit: str | None, description: str, low: float | None, high: float | None, where: str
) -> tuple[dict[str, str], tuple[Property, ...]]:
    """Returns the unit of the returned value for each property, and the definition of each property."""
    if isinstance(measures, Mapping) and unit is not None:
        raise UsageError(f"{where}: the units are among measures already; leave unit out")
    units: dict[str, str] = {}
    defined: list[Property] = []
    for measure in [measures] if isinstance(measures, str | Property) else measures:
        known = measure if isinstance(measure, Property) else _known(measure)
        name = measure if isinstance(measure, str) else measure.name
        units[name] = measures[name] if isinstance(measures, Mapping) else unit or (known.unit if known else "1")
        known = known or Property(name, (units[name],), description or f"by {where}", low=low, high=high)
        if units[name] not in known.units:
            raise UsageError(
                f'{where}: {name} is not given in "{units[name]}"{did_you_mean(units[name], known.units)}; it takes: '
                f"{', '.join(known.units)}"
            )
        defined.append(known)
    if not defined:
        raise UsageError(f"{where}: measures is empty; name a property")
    return units, tuple(defined)


def _known(name: str) -> Property | None:
    """Returns the property of that name of an installed package, or None."""
    registered = properties()
    if name not in registered or registered.provider(name).startswith(FUNCTION):
        return None
    return registered[name]


def _numbers(answer: Any, definition: Definition) -> dict[str, tuple[float, float | None]]:
    """Returns {property: (value, uncertainty)}. Raises TypeError or ValueError for another type or property."""
    if isinstance(answer, Mapping):
        if unknown := [name for name in answer if name not in definition.units]:
            raise ValueError(f"it returned {unknown[0]!r}, and measures {', '.join(definition.units)}")
        return {name: _pair(pair) for name, pair in answer.items()}
    if len(definition.units) > 1:
        raise TypeError(
            f"it measures {', '.join(definition.units)}: return a dictionary, not a {type(answer).__name__}"
        )
    return {next(iter(definition.units)): _pair(answer)}


def _pair(answer: Any) -> tuple[float, float | None]:
    if isinstance(answer, tuple | list):
        if len(answer) != 2:
            raise TypeError(f"it returned {len(answer)} numbers: return a number, or a pair (value, uncertainty)")
        value, spread = answer
        return float(value), None if spread is None else float(spread)
    if answer is None:
        raise TypeError("it returned nothing: return a number, a pair (value, uncertainty), or a Refusal")
    return float(answer), None
