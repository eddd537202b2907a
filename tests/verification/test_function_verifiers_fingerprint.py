"""The fingerprint of a function: other code is another method, another layout is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sciagent.errors import UsageError
from sciagent.verification.function_verifiers import code_of

LIMIT = 3.0
WEIGHTS = np.array([1.0, 2.0])


def helper(x: float) -> float:
    return x * LIMIT


def plain(x: float) -> float:
    return helper(x) + WEIGHTS[0]


def made(text: str, **names: Any) -> Callable[..., Any]:
    """A function of that text, whose source is known."""
    import linecache

    name = f"<made {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "made", **names}
    exec(compile(text, name, "exec"), scope)
    return scope["f"]  # type: ignore[no-any-return]


def test_layout_comments_and_docstrings_do_not_count() -> None:
    one = made("def f(x):\n    return x + 1\n")
    other = made('def f( x ):\n    """Says."""\n    # why\n    return (x + 1)\n')
    assert code_of(one, "f") == code_of(other, "f")
    assert code_of(one, "f") != code_of(made("def f(x):\n    return x + 2\n"), "f")


def test_what_a_function_uses_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = code_of(plain, "plain")
    assert before == code_of(plain, "plain")
    monkeypatch.setitem(plain.__globals__, "LIMIT", 4.0)  # used by the helper
    assert code_of(plain, "plain") != before
    monkeypatch.undo()
    monkeypatch.setitem(plain.__globals__, "WEIGHTS", np.array([1.0, 2.5]))
    assert code_of(plain, "plain") != before
    monkeypatch.undo()
    assert code_of(plain, "plain") == before


def test_what_a_closure_holds_counts() -> None:
    def around(n: int) -> Callable[[int], int]:
        return lambda x: x + n

    assert code_of(around(1), "f") != code_of(around(2), "f")


def test_a_name_that_stands_nowhere_is_told_at_once() -> None:
    with pytest.raises(UsageError, match="it uses 'model', which is not there yet; define it above"):
        code_of(made("def f(x):\n    return model.predict(x.smiles)\n"), "verifier 'f'")
