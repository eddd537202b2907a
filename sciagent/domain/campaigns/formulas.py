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
from typing import Any

from sciagent.domain.units import in_base_units
from sciagent.errors import UsageError

NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?"
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_POWER = r"(?:\*\*-?\d+)?"
_UNIT = rf"[A-Za-zµ°%][\w°]*{_POWER}(?:[*/][A-Za-z]\w*{_POWER})*"
_TOKEN = re.compile(rf"(?P<number>{_NUMBER})(?:[ \t]+(?P<unit>{_UNIT}))?|(?P<name>{NAME})")
MAX_LENGTH = 500


@dataclass(frozen=True)
class FormulaResult:
    """The value of a formula and its derivatives by its parts, in base units."""

    value: float
    slopes: Mapping[str, float]
    """{part: derivative}."""

    def __add__(self, other: FormulaResult) -> FormulaResult:
        return self._joined(other, self.value + other.value, 1.0, 1.0)

    def __sub__(self, other: FormulaResult) -> FormulaResult:
        return self._joined(other, self.value - other.value, 1.0, -1.0)

    def __mul__(self, other: FormulaResult) -> FormulaResult:
        return self._joined(other, self.value * other.value, other.value, self.value)

    def __truediv__(self, other: FormulaResult) -> FormulaResult:
        ratio = self.value / other.value
        return self._joined(other, ratio, 1 / other.value, -ratio / other.value)

    def _joined(self, other: FormulaResult, value: float, mine: float, others: float) -> FormulaResult:
        """Returns a result by the chain rule. mine, others: derivatives of `value` by the two operands."""
        names = {**self.slopes, **other.slopes}
        slopes = {n: mine * self.slopes.get(n, 0.0) + others * other.slopes.get(n, 0.0) for n in names}
        return FormulaResult(value, slopes)


_OPERATIONS: Mapping[type[ast.operator], Callable[[FormulaResult, FormulaResult], FormulaResult]] = {
    ast.Add: FormulaResult.__add__,
    ast.Sub: FormulaResult.__sub__,
    ast.Mult: FormulaResult.__mul__,
    ast.Div: FormulaResult.__truediv__,
}


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
        return self._dimension(self._tree, units)

    def _dimension(self, node: ast.AST, units: Mapping[str, str]) -> Any:
        if isinstance(node, ast.Name):
            held = self._leaves[node.id]
            return in_base_units(units[held] if isinstance(held, str) else held[1]).dimension
        if isinstance(node, ast.UnaryOp):
            return self._dimension(node.operand, units)
        assert isinstance(node, ast.BinOp)
        left, right = (self._dimension(side, units) for side in (node.left, node.right))
        if isinstance(node.op, ast.Mult | ast.Div):
            return left * right if isinstance(node.op, ast.Mult) else left / right
        if left != right:
            word = "sum" if isinstance(node.op, ast.Add) else "difference"
            raise UsageError(f'"{self.text}" has a {word} of {left} and {right}')
        return left

    def evaluate(self, values: Mapping[str, float]) -> FormulaResult:
        """Returns the result. values: each part in base units. Raises ZeroDivisionError or OverflowError."""
        return self._evaluated(self._tree, values)

    def _evaluated(self, node: ast.AST, values: Mapping[str, float]) -> FormulaResult:
        if isinstance(node, ast.Name):
            held = self._leaves[node.id]
            if isinstance(held, str):
                return FormulaResult(values[held], {held: 1.0})
            return FormulaResult(held[0] * in_base_units(held[1]).factor, {})
        if isinstance(node, ast.UnaryOp):
            value = self._evaluated(node.operand, values)
            return FormulaResult(-1.0, {}) * value if isinstance(node.op, ast.USub) else value
        assert isinstance(node, ast.BinOp)
        left, right = (self._evaluated(side, values) for side in (node.left, node.right))
        return _OPERATIONS[type(node.op)](left, right)


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
    """Returns whether a node is one of the four operations, a sign, or the placeholder of a name or a number."""
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
