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

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_names, subject_of
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured, text_hash
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import Level, Property, PropertyAtLevel, at, properties
from sciagent.domain.quantities import Quantity, to_canonical
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.errors import UsageError, did_you_mean
from sciagent.verification import verifier_registry
from sciagent.verification.verifier_contract import Context, Finding, Refusal, Settings, Verifier
from sciagent.verification.verifier_registry import CODE

PLAIN_TYPES = (bool, int, float, complex, str, bytes, type(None))
"""Types of data whose values enter the fingerprint of a function."""


def code_of(function: Callable[..., Any], where: str) -> str:
    """Returns the SHA-256 of the function's source, of called functions of its module, and of constants and arrays.

    Any other object that it uses, such as a trained model, enters by its type only. Raises UsageError for an undefined
    name. where: the verifier's name in that message.
    """
    descriptions: dict[str, str] = {}
    _add_descriptions(function, where, descriptions)
    return text_hash("\n".join(f"{name}\n{text}" for name, text in sorted(descriptions.items())))


def _add_descriptions(function: Any, where: str, descriptions: dict[str, str]) -> None:
    """Adds to `descriptions`, by name, the source of the function and descriptions of what the function uses."""
    if not isinstance(function, FunctionType):
        name = getattr(function, "__qualname__", type(function).__name__)
        descriptions[name] = _described(function)
        return
    if function.__qualname__ in descriptions:
        return
    descriptions[function.__qualname__] = _source(function)
    for name, value in _used_variables(function, where):
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            _add_descriptions(value, where, descriptions)
        elif value is not function:
            descriptions[f"{function.__qualname__}: {name}"] = _described(value)


def _used_variables(function: FunctionType, where: str) -> Iterator[tuple[str, Any]]:
    """Yields (name, value) of the globals and the enclosing functions' variables that the function uses."""
    for name in sorted(set(_global_names(function.__code__))):
        if name in function.__globals__:
            yield name, function.__globals__[name]
        elif not hasattr(builtins, name) and name != function.__name__:  # its own name is defined later
            raise UsageError(f"{where}: it uses {name!r}, which is not there yet; define it above the function")
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the cell is still empty: a function that calls itself
            continue


def _global_names(code: CodeType) -> Iterator[str]:
    """Yields the names of the globals that the code and the functions defined in it read."""
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
            defined.body = defined.body[1:] or [ast.Pass()]  # a body needs a statement
    return ast.unparse(defined)


def _bytecode(code: CodeType) -> str:
    """Returns the bytecode, the constants and the names of a function, and of the functions defined in it, as text."""
    constants = [
        _bytecode(constant) if isinstance(constant, CodeType) else repr(constant) for constant in code.co_consts
    ]
    return f"{code.co_code.hex()} {constants} {code.co_names}"


def _described(value: Any) -> str:
    """Returns the value of plain data and arrays, the name of classes and functions, and the type of other objects."""
    if isinstance(value, PLAIN_TYPES):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(_described, value))})"
    if isinstance(value, dict):
        items = sorted((_described(key), _described(item)) for key, item in value.items())
        return f"dict({items})"
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
FUNCTION = "function:"  # beginning of the `package` of a verifier made from a function
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,63}")  # of such a verifier
TIERS = {str(tier): tier for tier in (Tier.FAST, Tier.SIMULATION, Tier.HIGH_FIDELITY)}


@dataclass(frozen=True)
class Definition:
    """A verifier made from a function, in the form that is sent to the processes that run jobs."""

    function: Callable[..., Any]
    """The function; its arguments are a candidate, such as a `Molecule` or a `Crystal`, and the settings."""
    name: str
    """Name of the verifier."""
    version: str
    """The author increases it when the numbers change although the code does not."""
    tier: str
    """`fast`, `simulation` or `high_fidelity`."""
    units: Mapping[str, str]
    """{property: unit of the returned value}."""
    properties: tuple[Property, ...]
    """Definitions of the measured properties, in the order of `units`."""
    method: str
    """Method of the level of the verifier's values."""
    cost: float | Callable[[Any], float]
    """Expected core-seconds per candidate, or a function of the candidate that returns them."""
    code: str
    """Fingerprint of the function and of all that it uses."""
    preload: tuple[str, ...]
    """Modules that are imported once for all jobs."""
    subject: str = MOLECULE_KIND
    """Kind of the candidates: `molecule`, `crystal` or another subject."""


class FunctionVerifier(Verifier[Any]):
    """The base class of verifiers made from functions."""

    definition: ClassVar[Definition]

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level(method=self.definition.method), *self.definition.properties)

    def cost(self, candidate: Any) -> Cost:
        declared = self.definition.cost
        seconds = declared(candidate) if callable(declared) else declared
        return Cost(core_seconds=float(seconds))

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        yield from map(self._finding, batch)

    def _finding(self, candidate: Any) -> Finding:
        setting_names = [name for name in type(self.settings).model_fields if name != CODE]
        arguments = {name: getattr(self.settings, name) for name in setting_names}
        answer = self.definition.function(candidate, **arguments)
        if isinstance(answer, Refusal):
            return Finding(candidate.key, Outcome.REFUSED, reason=answer.reason, detail=answer.detail)
        numbers = _numbers(answer, self.definition)
        for name, (value, _) in numbers.items():
            if not math.isfinite(value):
                detail = f"{name} is {value}"
                return Finding(candidate.key, Outcome.IMPLAUSIBLE, reason=Reason.NOT_FINITE, detail=detail)
        level = Level(method=self.definition.method)
        measured = []
        for prop in self.definition.properties:
            if prop.name in numbers:
                value, uncertainty = numbers[prop.name]
                quantity = Quantity(value, self.definition.units[prop.name], uncertainty)
                measured.append(Measured(prop.name, level, to_canonical(quantity, prop)))
        return Finding(candidate.key, Outcome.OK, tuple(measured))


class VerifierFunction:
    """A function decorated by `sciagent.verifier`: still callable, and usable as a rung of a ladder.

    It also accepts a notation instead of a candidate: a SMILES, or the text of a structure such as `rocksalt: Na Cl`.
    """

    def __init__(self, definition: Definition, kind: type[FunctionVerifier]) -> None:
        functools.update_wrapper(self, definition.function)
        self.definition = definition
        self.kind = kind
        self.verifier_name = definition.name

    def __call__(self, candidate: Any, **settings: Any) -> Any:
        if isinstance(candidate, str):
            candidate = subject_of(self.definition.subject).read(candidate)
        return self.definition.function(candidate, **settings)

    def __repr__(self) -> str:
        definition = self.definition
        measured = ", ".join(f"{name} [{unit}]" for name, unit in definition.units.items())
        return f"verifier {definition.name} {definition.version}+{definition.code[:8]} ({definition.tier}): {measured}"


def verifier(
    *,
    measures: Measures,
    unit: str | None = None,
    kind: str = MOLECULE_KIND,
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
    `multiplicity`, `n_atoms`, `heavy_atoms` and `formula`; with `kind="crystal"` with a crystal, which has `structure`
    (pymatgen, do not change it), `formula`, `space_group`, `lattice`, `species`, `coordinates` and `n_atoms`, all of
    the primitive cell. Further parameters need defaults; they are the settings of the rung. It returns a number, a pair
    (number, standard uncertainty), a dictionary of either by property, or a `Refusal`. An exception is recorded as the
    candidate's error.

    measures: a property, known or new; several; or {property: unit}. unit: unit of the returned value, None for a pure
    number. kind: of the candidates, `molecule` or `crystal`. version: raise it when the numbers change although the
    code does not, for example after retraining a model. name: default: the function's. tier: `fast` for milliseconds;
    `simulation` and `high_fidelity` run as jobs. cost: expected core-seconds, or a function of the candidate. method:
    method of the level; default: the name. description, low, high: description and plausible limits of a new property.
    preload: modules to import once.

    Raises UsageError; its message says what is accepted.
    """

    def decorate(given: Callable[..., Any]) -> VerifierFunction:
        verifier_name = str(name or getattr(given, "__name__", ""))
        where = f"verifier {verifier_name!r}"
        if not callable(given) or not NAME.fullmatch(verifier_name):
            raise UsageError(f"{where}: give it a name of letters, digits, dots and underscores, with name=")
        if tier not in TIERS:
            raise UsageError(f'{where}: tier="{tier}"{did_you_mean(tier, TIERS)}; one of {", ".join(TIERS)}')
        if not callable(cost) and not (math.isfinite(cost) and cost >= 0):
            raise UsageError(f"{where}: cost={cost}: core-seconds, a finite number of at least 0")
        kinds = subject_names()
        if kind not in kinds:
            raise UsageError(f'{where}: kind="{kind}"{did_you_mean(kind, kinds)}; one of {", ".join(kinds)}')
        units, defined = _properties(measures, unit, description, low, high, where)
        code = code_of(given, where)
        modules = tuple(preload)
        definition = Definition(
            function=given,
            name=verifier_name,
            version=version,
            tier=tier,
            units=units,
            properties=defined,
            method=method or verifier_name,
            cost=cost,
            code=code,
            preload=modules,
            subject=kind,
        )
        pickled = _pickled(definition, where)
        return VerifierFunction(definition, _register(definition, pickled, where))

    return decorate


def _register(definition: Definition, pickled: bytes, where: str) -> type[FunctionVerifier]:
    """Registers the verifier and its properties in this process; returns the verifier's class."""
    package = f"{FUNCTION}{definition.name} {definition.version}+{definition.code[:12]}"  # for the provenance
    kind = _kind(definition, where)
    for prop in definition.properties:
        properties().add(prop, package)
    verifier_registry.define(definition.name, verifier_registry.Defined(kind, package, pickled))
    return kind


def restore(pickled: bytes) -> None:
    """Defines a verifier in this process from the pickle of another process."""
    # the folders are read first, since the definition may import modules from them
    folders, pickled_definition = cloudpickle.loads(pickled)
    sys.path += [folder for folder in folders if folder not in sys.path]
    definition: Definition = cloudpickle.loads(pickled_definition)
    _register(definition, pickled, definition.name)


def _pickled(definition: Definition, where: str) -> bytes:
    """Returns the definition pickled by value, with its own module's objects; other modules are imported by path."""
    module_name = getattr(definition.function, "__module__", None) or ""
    module = sys.modules.get(module_name)
    by_value = module is not None and module.__name__ != "__main__"  # of `__main__`, cloudpickle does so by itself
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        pickled_definition = cloudpickle.dumps(definition)
    except Exception as error:  # any object that the function uses may raise anything
        raise UsageError(
            f"{where}: it cannot be sent to the processes of the jobs: {type(error).__name__}: {error}; open files, "
            "locks and connections inside the function instead"
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    folders = [str(Path(folder).resolve()) for folder in sys.path]
    return cloudpickle.dumps((folders, pickled_definition))  # type: ignore[no-any-return]


def _kind(definition: Definition, where: str) -> type[FunctionVerifier]:
    """Returns the verifier's class, with the function's further parameters as settings. Raises UsageError."""
    fields: dict[str, Any] = {CODE: (Literal[definition.code], definition.code)}  # takes this fingerprint only
    parameters = list(inspect.signature(definition.function).parameters.values())
    for parameter in parameters[1:]:  # the first one is the candidate
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(f"{where}: *{parameter.name} is no setting; name every parameter")
        if parameter.default is parameter.empty or parameter.name == CODE:
            needed = "another name" if parameter.name == CODE else "a default"
            raise UsageError(f"{where}: the parameter {parameter.name!r} is a setting, and needs {needed}")
        hint = parameter.annotation
        if isinstance(hint, str):  # `from __future__ import annotations` leaves a text in place of the type
            hint = type(parameter.default)
        elif hint is parameter.empty:
            hint = Any
        fields[parameter.name] = (hint, parameter.default)
    settings = create_model("FunctionSettings", __base__=Settings, **fields)
    attributes = {
        "__module__": __name__,
        "__doc__": definition.function.__doc__,
        "name": definition.name,
        "version": definition.version,
        "tier": TIERS[definition.tier],
        "Settings": settings,
        "kind": definition.subject,
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
    listed_measures = [measures] if isinstance(measures, str | Property) else measures
    for measure in listed_measures:
        name = measure if isinstance(measure, str) else measure.name
        prop = _known(measure) if isinstance(measure, str) else measure
        if isinstance(measures, Mapping):
            returned_unit = measures[name]
        elif unit:
            returned_unit = unit
        else:
            returned_unit = "1" if prop is None else prop.unit
        if prop is None:
            prop = Property(name, (returned_unit,), description or f"by {where}", low=low, high=high)
        if returned_unit not in prop.units:
            hint = did_you_mean(returned_unit, prop.units)
            accepted_units = ", ".join(prop.units)
            raise UsageError(f'{where}: {name} is not given in "{returned_unit}"{hint}; it takes: {accepted_units}')
        units[name] = returned_unit
        defined.append(prop)
    if not defined:
        raise UsageError(f"{where}: measures is empty; name a property")
    return units, tuple(defined)


def _known(name: str) -> Property | None:
    """Returns the property `name` of an installed package; None if no package defines it."""
    registered = properties()
    if name not in registered or registered.provider(name).startswith(FUNCTION):
        return None
    return registered[name]


def _numbers(answer: Any, definition: Definition) -> dict[str, tuple[float, float | None]]:
    """Returns {property: (value, uncertainty)}. Raises TypeError or ValueError for another type or property."""
    if isinstance(answer, Mapping):
        for name in answer:
            if name not in definition.units:
                raise ValueError(f"it returned {name!r}, and measures {', '.join(definition.units)}")
        return {name: _pair(pair) for name, pair in answer.items()}
    if len(definition.units) > 1:
        raise TypeError(
            f"it measures {', '.join(definition.units)}: return a dictionary, not a {type(answer).__name__}"
        )
    [measured_name] = definition.units
    return {measured_name: _pair(answer)}


def _pair(answer: Any) -> tuple[float, float | None]:
    """Returns (value, standard uncertainty); None for an uncertainty that is not stated."""
    if isinstance(answer, tuple | list):
        if len(answer) != 2:
            raise TypeError(f"it returned {len(answer)} numbers: return a number, or a pair (value, uncertainty)")
        value, uncertainty = answer
        if uncertainty is None:
            return float(value), None
        return float(value), float(uncertainty)
    if answer is None:
        raise TypeError("it returned nothing: return a number, a pair (value, uncertainty), or a Refusal")
    return float(answer), None
