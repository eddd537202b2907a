"""The house rules: size of modules, names, docstrings, complexity, and where tests lie.

Each rule lists its offenders; `LIMITS` holds how many there may be. A limit is lowered as the code improves, and never
raised.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "sciagent": "",
    "verifiers/sciagent_verifiers": "verifiers",
    "simulators/sciagent_simulators": "simulators",
    "bench/sciagent_bench": "bench",
}
"""Folder of a package, and the folder below `tests` that holds its tests."""
LIMITS = {
    "modules over 700 lines": 0,
    "public class names used twice": 0,
    "docstrings that begin with Of": 0,
    "functions with a complexity over 15": 7,
    "signatures with dict[str, Any]": 40,
    "lines with fmt: skip": 60,
    "modules over 100 lines without a test file": 0,
}
"""How many offenders each rule allows."""


@dataclass(frozen=True)
class Module:
    """One parsed module of the product."""

    path: Path
    """Relative to the repository."""
    lines: list[str]
    nodes: list[ast.AST]
    """Every node of its tree."""
    test: Path
    """Where its tests lie: the mirrored path; the plug-ins' packages are mirrored without their folders of tiers."""


Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def modules() -> list[Module]:
    parsed = []
    for package, tests in PACKAGES.items():
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            folder = Path() if tests else path.parent.relative_to(ROOT / package)
            test = ROOT / "tests" / tests / folder / f"test_{path.stem.lstrip('_')}.py"
            nodes = list(ast.walk(ast.parse(text)))
            parsed.append(Module(path.relative_to(ROOT), text.splitlines(), nodes, test))
    return parsed


def complexity(function: ast.AST) -> int:
    """McCabe's number as radon counts it: branches, loops, handlers, `and`/`or`, conditions, comprehensions."""
    total = 1
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.Try)):
            total += bool(node.orelse) + (not isinstance(node, ast.Try))
        elif isinstance(node, (ast.If, ast.IfExp, ast.ExceptHandler, ast.Assert, ast.match_case)):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
    return total


def functions() -> Iterator[tuple[Module, Function]]:
    for module in modules():
        for node in module.nodes:
            if isinstance(node, Function):
                yield module, node


def long_modules() -> list[str]:
    return [f"{module.path}: {len(module.lines)} lines" for module in modules() if len(module.lines) > 700]


def repeated_classes() -> list[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(module.path))
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(places.items()) if len(paths) > 1]


def docstrings_of() -> list[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        f"{module.path}:{getattr(node, 'lineno', 1)}"
        for module in modules()
        for node in module.nodes
        if isinstance(node, documented) and re.match(r"Of\b", ast.get_docstring(node) or "")
    ]


def complex_functions() -> list[str]:
    counted = [(complexity(function), module, function) for module, function in functions()]
    return [
        f"{module.path}:{f.lineno} {f.name}: {n}" for n, module, f in sorted(counted, key=lambda c: -c[0]) if n > 15
    ]


def loose_signatures() -> list[str]:
    found = []
    for module, function in functions():
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        annotations = [argument.annotation for argument in every if argument] + [function.returns]
        if any(annotation and "dict[str, Any]" in ast.unparse(annotation) for annotation in annotations):
            found.append(f"{module.path}:{function.lineno} {function.name}")
    return found


def skipped_lines() -> list[str]:
    return [f"{m.path}:{n}" for m in modules() for n, line in enumerate(m.lines, 1) if "# fmt: skip" in line]


def untested_modules() -> list[str]:
    long = [module for module in modules() if len(module.lines) > 100]
    return [f"{m.path} needs {m.test.relative_to(ROOT)}" for m in long if not m.test.exists()]


RULES = {
    "modules over 700 lines": long_modules,
    "public class names used twice": repeated_classes,
    "docstrings that begin with Of": docstrings_of,
    "functions with a complexity over 15": complex_functions,
    "signatures with dict[str, Any]": loose_signatures,
    "lines with fmt: skip": skipped_lines,
    "modules over 100 lines without a test file": untested_modules,
}


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_holds(rule: str) -> None:
    offenders = RULES[rule]()
    assert len(offenders) <= LIMITS[rule], "\n".join(offenders)


def test_complexity_is_counted_as_radon_counts_it() -> None:
    text = "def f(x):\n    for y in x:\n        if y and x:\n            pass\n    return [z for z in x if z]"
    assert complexity(ast.parse(text)) == 6
