"""The fingerprint of a function: a hash of its code that ignores comments, layout and file names."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from sciagent.domain.evidence import text_hash
from sciagent.errors import UsageError

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
