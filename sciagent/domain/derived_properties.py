"""Derived properties: values that a campaign computes from other values of the same candidate, by a formula.

A formula has names, numbers with units, + - * / and parentheses. It is parsed into a tree of these operations and never
evaluated as Python. Values enter in base units of the SI, with amounts per mole taken per particle, so that eV and
kJ/mol can be mixed; the result is in base units, too.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sciagent.domain.evidence_keys_and_pooled_replicates import (
    CLASS,
    MEAN,
    MOLECULE,
    WEIGHTED_MEAN,
    Measured,
    content_hash,
)
from sciagent.domain.properties_and_levels import BUILT_IN, Level, Property, properties
from sciagent.domain.quantities import Censoring, Quantity, isomer_of_parts
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.units import in_base_units
from sciagent.domain.worth import KnownError
from sciagent.errors import UsageError

NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?"
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_POWER = r"(?:\*\*-?\d+)?"
_UNIT = rf"[A-Za-zµ°%][\w°]*{_POWER}(?:[*/][A-Za-z]\w*{_POWER})*"
_TOKEN = re.compile(rf"(?P<number>{_NUMBER})(?:[ \t]+(?P<unit>{_UNIT}))?|(?P<name>{NAME})")
_OPERATIONS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
MAX_LENGTH = 500
T = TypeVar("T")


class FormulaResult(NamedTuple):
    """The value of a formula and how it changes with its parts, in base units."""

    value: float
    slopes: Mapping[str, float]
    """The derivative by each part."""


class _Term(NamedTuple):
    """A part of a formula, with its dimension and its text, in which each name and number has its unit."""

    dimension: Any
    words: str


@dataclass(frozen=True)
class Formula:
    """A parsed formula."""

    text: str
    parts: tuple[str, ...]
    """The names in it, in order of appearance: `property` or `rung.property`."""
    _tree: ast.expr
    _leaves: Mapping[str, str | tuple[float, str]]
    """A name, or a number with its unit, by the placeholder in the tree."""

    def dimension(self, units: Mapping[str, str]) -> Any:
        """Returns the dimension of the result. units: the unit of each part. Raises UsageError for a sum of different
        dimensions, UnitError for an unknown unit."""

        def leaf(name_or_number: str | tuple[float, str]) -> _Term:
            if isinstance(name_or_number, str):
                text = name_or_number
                unit = units[name_or_number]
            else:
                number, unit = name_or_number
                text = f"{number:g}"
            unit_text = "no unit" if unit == "1" else unit
            return _Term(in_base_units(unit).dimension, f"{text} ({unit_text})")

        def joined(sign: str, left: _Term, right: _Term) -> _Term:
            if sign in "+-" and left.dimension != right.dimension:
                sides = f"{left.words} and {right.words}"
                raise UsageError(f'"{self.text}" has a {_SIGNS[sign]} of {sides}, whose units are not of one kind')
            words = f"{left.words} {sign} {right.words}"
            if sign in "+-":
                return _Term(left.dimension, words)
            dimension = left.dimension * right.dimension if sign == "*" else left.dimension / right.dimension
            return _Term(dimension, f"[{words}]")

        def negated(term: _Term) -> _Term:
            return term  # a sign changes no dimension

        return self._walked(self._tree, leaf, joined, negated).dimension

    def evaluate(self, values: Mapping[str, float]) -> FormulaResult:
        """Returns the result. values: each part in base units. Raises ZeroDivisionError or OverflowError."""

        def leaf(name_or_number: str | tuple[float, str]) -> FormulaResult:
            if isinstance(name_or_number, str):
                return FormulaResult(values[name_or_number], {name_or_number: 1.0})
            number, unit = name_or_number
            return FormulaResult(number * in_base_units(unit).factor, {})

        def negated(result: FormulaResult) -> FormulaResult:
            return FormulaResult(-result.value, _scaled(result.slopes, -1.0))

        return self._walked(self._tree, leaf, _joined, negated)

    def _walked(
        self,
        node: ast.expr,
        leaf: Callable[[str | tuple[float, str]], T],
        joined: Callable[[str, T, T], T],
        negated: Callable[[T], T],
    ) -> T:
        """Returns the result of a node of the tree.

        leaf: returns the result of a name or a number. joined: returns the result of an operation from its sign and the
        results of its two sides. negated: returns the result of a negative sign."""
        if isinstance(node, ast.Name):
            return leaf(self._leaves[node.id])
        if isinstance(node, ast.BinOp):
            left = self._walked(node.left, leaf, joined, negated)
            right = self._walked(node.right, leaf, joined, negated)
            return joined(_OPERATIONS[type(node.op)], left, right)
        assert isinstance(node, ast.UnaryOp)
        value = self._walked(node.operand, leaf, joined, negated)
        return negated(value) if isinstance(node.op, ast.USub) else value


_SIGNS = {"+": "sum", "-": "difference"}


def _joined(sign: str, left: FormulaResult, right: FormulaResult) -> FormulaResult:
    """Returns the result of an operation, with the derivatives by the rules of differentiation."""
    match sign:
        case "+":
            return FormulaResult(left.value + right.value, _added(left.slopes, right.slopes))
        case "-":
            return FormulaResult(left.value - right.value, _added(left.slopes, _scaled(right.slopes, -1.0)))
        case "*":
            slopes = _added(_scaled(left.slopes, right.value), _scaled(right.slopes, left.value))
            return FormulaResult(left.value * right.value, slopes)
    ratio = left.value / right.value
    slopes = _added(_scaled(left.slopes, 1 / right.value), _scaled(right.slopes, -ratio / right.value))
    return FormulaResult(ratio, slopes)


def _scaled(slopes: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: factor * slope for name, slope in slopes.items()}


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in {**first, **second}}


def read_formula(text: str) -> Formula:
    """Reads a formula. Raises UsageError for anything else than names, numbers, + - * / and parentheses, and UnitError
    for a number with a text that is no unit."""
    if len(text) > MAX_LENGTH:
        raise UsageError(f"the formula has {len(text)} characters; the limit is {MAX_LENGTH}")
    leaves: dict[str, str | tuple[float, str]] = {}

    def placeholder(token: re.Match[str]) -> str:
        placeholder_name = f"_{len(leaves)}"
        if token["name"]:
            leaves[placeholder_name] = token["name"]
        else:
            number = float(token["number"])
            if not math.isfinite(number):
                raise UsageError(f'"{text}": {token["number"]} is too large')
            leaves[placeholder_name] = (number, token["unit"] or "1")
        return f" {placeholder_name} "

    replaced = _TOKEN.sub(placeholder, text)
    try:
        tree = ast.parse(replaced.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(_not_read(text)) from None
    if not all(_is_allowed(node, leaves) for node in ast.walk(tree)):
        raise UsageError(_not_read(text))
    names = []
    for name_or_number in leaves.values():
        if isinstance(name_or_number, str):
            names.append(name_or_number)
        else:
            _, unit = name_or_number
            in_base_units(unit)  # raises UnitError
    if not names:
        raise UsageError(f'"{text}" names no property')
    parts = tuple(dict.fromkeys(names))  # each once, in order
    return Formula(text, parts, tree, leaves)


def _is_allowed(node: ast.AST, leaves: Collection[str]) -> bool:
    """Whether a node of the tree is one of the four operations, a sign, or the placeholder of a name or a number."""
    if isinstance(node, ast.Name):
        return node.id in leaves
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd)
    # `ast.Load` is in the tree beside each name
    return isinstance(node, ast.Load | ast.BinOp | ast.USub | ast.UAdd) or type(node) in _OPERATIONS


def _not_read(text: str) -> str:
    return f'"{text}" is no formula; it takes: names of properties, numbers such as 4.44 eV, + - * / and parentheses'


def with_names(text: str, replacement: Callable[[str], str]) -> str:
    """Returns a formula with each name replaced."""

    def replaced(token: re.Match[str]) -> str:
        return replacement(token["name"]) if token["name"] else token[0]

    return _TOKEN.sub(replaced, text)


DERIVED_VERIFIER = "derived.formula"
"""Name of the verifier of derived values."""
VERSION = "1"
"""Version of the rules in this module."""
PROVIDER = "a campaign's file"
DESCRIPTION = "derived by the formula of its campaign"

Part = tuple[Position, str]
"""Position of a rung, and a property that it measures."""


@dataclass(frozen=True)
class DerivedProperty:
    """A derived property of a campaign, with the rungs that measure its parts."""

    definition: Property
    formula: Formula
    parts: Mapping[str, Part]
    """{name in the formula: the rung and the property that give its value}."""
    level: Level
    settings_hash: str
    """Hash of the formula and of the methods of its parts."""

    @property
    def rungs(self) -> set[Position]:
        """Positions of the rungs that measure its parts."""
        return {position for position, _ in self.parts.values()}

    @property
    def last(self) -> Position:
        """Position of the rung after which the value is known."""
        return max(self.rungs)

    def measured(self, values: Mapping[Part, Quantity]) -> Measured | None:
        """Returns the value; None if a part is missing, the formula divides by zero, or bounds on parts contradict.

        values: by part, in canonical units. The uncertainty is of first order. Values of different rungs err
        independently. Values of one rung come from the same evidence and may err together, so the absolute amounts that
        they contribute are added, which is the largest uncertainty that any correlation gives. If the uncertainty of
        one part is unknown, so is the uncertainty of the result.
        """
        quantities = {name: values[part] for name, part in self.parts.items() if part in values}
        if len(quantities) < len(self.parts):
            return None
        result = evaluated_in_unit(self.formula, quantities, self.definition.unit)
        if result is None:
            return None
        slopes: dict[Part, float] = {}  # two names may stand for one part
        for name, slope in result.slopes.items():
            part = self.parts[name]
            slopes[part] = slopes.get(part, 0.0) + slope
        censoring = _censoring([(slope, values[part].censoring) for part, slope in slopes.items()])
        if censoring is None:
            return None
        spread = _spread([(part[0], slope, values[part].uncertainty) for part, slope in slopes.items()])
        counting = [values[part] for part, slope in slopes.items() if slope]
        kind = _kind(counting) if spread else None
        quantity = Quantity(
            result.value,
            self.definition.unit,
            spread,
            censoring,
            uncertainty_kind=kind,
            isomer=isomer_of_parts(counting),
        )
        return Measured(self.definition.name, self.level, quantity)


def evaluated_in_unit(formula: Formula, parts: Mapping[str, Quantity], unit: str) -> FormulaResult | None:
    """Returns the value of a formula in `unit`, and its slope by each part, in `unit` per unit of the part.

    None if the formula divides by zero or its value is too large.
    """
    scale = {name: in_base_units(quantity.unit).factor for name, quantity in parts.items()}
    in_base = {name: quantity.value * scale[name] for name, quantity in parts.items()}
    try:
        result = formula.evaluate(in_base)
    except (ZeroDivisionError, OverflowError):
        return None
    to_unit = 1 / in_base_units(unit).factor
    if not math.isfinite(result.value * to_unit):
        return None
    return FormulaResult(
        result.value * to_unit, {name: slope * scale[name] * to_unit for name, slope in result.slopes.items()}
    )


def propagated_error(parts: Sequence[tuple[Hashable, float, KnownError]]) -> KnownError | None:
    """Returns the error of a derived value, of first order; None without parts.

    parts: (rung, slope of the formula at the value, error of the part's method). The bias is the sum of slope * bias.
    Parts of one rung have one method and may err together, so the absolute amounts that their spreads contribute are
    added; those of different rungs are added in quadrature, as for the uncertainty. It is known from as many molecules
    as the part that is known from the fewest.
    """
    spread = _spread([(rung, slope, error.spread) for rung, slope, error in parts])
    if not parts or spread is None:
        return None
    bias = math.fsum(slope * error.bias for _, slope, error in parts)
    return KnownError(bias, spread, min(error.n for _, _, error in parts))


def _spread(parts: Sequence[tuple[Hashable, float, float | None]]) -> float | None:
    """Returns the standard uncertainty. parts: (rung, slope, standard uncertainty)."""
    by_rung: dict[Hashable, float] = {}
    for rung, slope, uncertainty in parts:
        if uncertainty is None:
            return None
        by_rung[rung] = by_rung.get(rung, 0.0) + abs(slope * uncertainty)
    return math.hypot(*by_rung.values())


def _kind(parts: Sequence[Quantity]) -> str | None:
    """Returns the kind of a derived value's uncertainty: `CLASS` if the kinds of the parts are `CLASS` and `MOLECULE`.

    None if the evidence on a part does not say, if other kinds are mixed, and for parts that are means of measurements,
    since the derived value is none.
    """
    kinds = {quantity.uncertainty_kind for quantity in parts if quantity.uncertainty}
    if kinds & {MEAN, WEIGHTED_MEAN}:
        return None
    if len(kinds) == 1:
        [kind] = kinds
        return kind
    return CLASS if kinds == {CLASS, MOLECULE} else None


def _censoring(parts: Sequence[tuple[float, Censoring]]) -> Censoring | None:
    """Returns on which side the true result lies; None if the bounds on the parts contradict each other."""
    opposite = {Censoring.BELOW: Censoring.ABOVE, Censoring.ABOVE: Censoring.BELOW}
    sides = set()
    for slope, side in parts:
        if slope and side is not Censoring.NONE:
            sides.add(side if slope > 0 else opposite[side])
    if not sides:
        return Censoring.NONE
    if len(sides) > 1:
        return None
    [side] = sides
    return side


def level_of(levels: Sequence[Level]) -> Level:
    """Returns the level of a value that is derived from parts at the levels: the level of the parts if all have the
    same, else a level that names each."""
    distinct = list(dict.fromkeys(levels))
    if len(distinct) == 1:
        return distinct[0]
    return Level(" and ".join(level.label for level in distinct))


def property_of(name: str, unit: str) -> Property:
    """Returns the definition of a derived property. It takes the units of the built-in properties that have this unit;
    the canonical unit is theirs, so that two campaigns that choose eV and kJ/mol define the same property."""
    if unit == "1":
        return Property(name, (unit,), DESCRIPTION)
    units_of_built_in = [prop.units for prop in BUILT_IN if unit in prop.units and not prop.conversions]
    units = max(units_of_built_in, key=len, default=(unit,))
    return Property(name, units, DESCRIPTION)


def register(name: str, unit: str) -> Property:
    """Registers a derived property in this process. Raises UsageError if an installed package defines the name."""
    prop = property_of(name, unit)
    properties().add(prop, PROVIDER)
    return prop


def is_derived(name: str) -> bool:
    """Returns whether a campaign of this process derives a property of this name."""
    return name in properties() and properties().provider(name) == PROVIDER


def settings_hash(stated: Mapping[str, Any], identities: Mapping[str, Sequence[str]]) -> str:
    """Returns the hash that identifies the method of a derived value.

    stated: the derived property in the canonical form of a spec, whose `parts` hold label of the rung and property by
    name. identities: verifier, version and settings hash of each rung, by label.
    """
    parts = {name: [*identities[rung], prop] for name, (rung, prop) in stated["parts"].items()}
    return content_hash([stated["property"], stated["unit"], stated["formula"], parts])
