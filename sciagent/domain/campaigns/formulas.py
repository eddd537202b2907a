"""Formulas of derived properties: names, numbers with units, + - * / and parentheses.

A formula is parsed into a tree of these operations and never evaluated as Python. Values enter in base units of the SI,
one particle for a mole, so that eV and kJ/mol can be mixed; the result is in base units too.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sciagent.domain.units import in_base_units
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
    """A formula that was read."""

    text: str
    parts: tuple[str, ...]
    """The names in it, in order of appearance: `property` or `rung.property`."""
    _tree: ast.expr
    _leaves: Mapping[str, str | tuple[float, str]]
    """A name, or a number with its unit, by the placeholder in the tree."""

    def dimension(self, units: Mapping[str, str]) -> Any:
        """Returns the dimension of the result. units: the unit of each part. Raises UsageError for a sum of different
        dimensions, UnitError for an unknown unit."""

        def leaf(held: str | tuple[float, str]) -> _Term:
            unit = units[held] if isinstance(held, str) else held[1]
            shown = "no unit" if unit == "1" else unit
            words = f"{held} ({shown})" if isinstance(held, str) else f"{held[0]:g} ({shown})"
            return _Term(in_base_units(unit).dimension, words)

        def joined(sign: str, left: _Term, right: _Term) -> _Term:
            if sign in "+-" and left.dimension != right.dimension:
                sides = f"{left.words} and {right.words}"
                raise UsageError(f'"{self.text}" has a {_SIGNS[sign]} of {sides}, whose units are not of one kind')
            words = f"{left.words} {sign} {right.words}"
            if sign in "+-":
                return _Term(left.dimension, words)
            product = sign == "*"
            dimension = left.dimension * right.dimension if product else left.dimension / right.dimension
            return _Term(dimension, f"[{words}]")

        return self._walked(self._tree, leaf, joined, lambda term: term).dimension

    def evaluate(self, values: Mapping[str, float]) -> FormulaResult:
        """Returns the result. values: each part in base units. Raises ZeroDivisionError or OverflowError."""

        def leaf(held: str | tuple[float, str]) -> FormulaResult:
            if isinstance(held, str):
                return FormulaResult(values[held], {held: 1.0})
            return FormulaResult(held[0] * in_base_units(held[1]).factor, {})

        return self._walked(self._tree, leaf, _joined, lambda r: FormulaResult(-r.value, _scaled(r.slopes, -1.0)))

    def _walked(
        self,
        node: ast.expr,
        leaf: Callable[[str | tuple[float, str]], T],
        joined: Callable[[str, T, T], T],
        negated: Callable[[T], T],
    ) -> T:
        if isinstance(node, ast.Name):
            return leaf(self._leaves[node.id])
        if isinstance(node, ast.BinOp):
            left, right = (self._walked(side, leaf, joined, negated) for side in (node.left, node.right))
            return joined(_OPERATIONS[type(node.op)], left, right)
        assert isinstance(node, ast.UnaryOp)
        value = self._walked(node.operand, leaf, joined, negated)
        return negated(value) if isinstance(node.op, ast.USub) else value


_SIGNS = {"+": "sum", "-": "difference"}


def _joined(sign: str, left: FormulaResult, right: FormulaResult) -> FormulaResult:
    match sign:
        case "+":
            return FormulaResult(left.value + right.value, _added(left.slopes, right.slopes))
        case "-":
            return FormulaResult(left.value - right.value, _added(left.slopes, _scaled(right.slopes, -1.0)))
        case "*":
            slopes = _added(_scaled(left.slopes, right.value), _scaled(right.slopes, left.value))
            return FormulaResult(left.value * right.value, slopes)
    ratio = left.value / right.value
    return FormulaResult(
        ratio, _added(_scaled(left.slopes, 1 / right.value), _scaled(right.slopes, -ratio / right.value))
    )


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
        held: str | tuple[float, str] = token["name"] or (float(token["number"]), token["unit"] or "1")
        if not isinstance(held, str) and not math.isfinite(held[0]):
            raise UsageError(f'"{text}": {token["number"]} is too large')
        leaves[name := f"_{len(leaves)}"] = held
        return f" {name} "

    replaced = _TOKEN.sub(placeholder, text)
    try:
        tree = ast.parse(replaced.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(_not_read(text)) from None
    if not all(_is_allowed(node, leaves) for node in ast.walk(tree)):
        raise UsageError(_not_read(text))
    for held in leaves.values():
        if not isinstance(held, str):
            in_base_units(held[1])
    parts = tuple(dict.fromkeys(held for held in leaves.values() if isinstance(held, str)))
    if not parts:
        raise UsageError(f'"{text}" names no property')
    return Formula(text, parts, tree, leaves)


def _is_allowed(node: ast.AST, leaves: Collection[str]) -> bool:
    """Whether a node of the tree is one of the four operations, a sign, or the placeholder of a name or a number."""
    if isinstance(node, ast.Name):
        return node.id in leaves
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd)
    return isinstance(node, ast.Load | ast.BinOp | ast.USub | ast.UAdd) or type(node) in _OPERATIONS


def _not_read(text: str) -> str:
    return f'"{text}" is no formula; it takes: names of properties, numbers such as 4.44 eV, + - * / and parentheses'


def with_names(text: str, replacement: Callable[[str], str]) -> str:
    """Returns a formula with each name replaced."""
    return _TOKEN.sub(lambda token: replacement(token["name"]) if token["name"] else token[0], text)
