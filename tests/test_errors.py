"""The tree of errors in the docstring is the one that the classes make, and a near name is suggested."""

from __future__ import annotations

import inspect
import re

import pytest

from sciagent import errors
from sciagent.errors import UnknownNameError, did_you_mean


def drawn_parents() -> dict[str, str]:
    """Parent of each error, as the docstring draws it."""
    parents, above = {}, {0: "Exception"}
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"([│├└─ ]*)(\w+Error)\b", line):
            depth = len(match[1]) // 4
            parents[match[2]], above[depth + 1] = above[depth], match[2]
    return parents


def test_the_tree_in_the_docstring_is_that_of_the_classes() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__]
    assert drawn_parents() == {c.__name__: c.__bases__[0].__name__ for c in classes}


@pytest.mark.parametrize(
    ("name", "hint"), [("ev", '; did you mean "eV"?'), ("hartre", '; did you mean "hartree"?'), ("furlong", "")]
)
def test_a_near_name_is_suggested(name: str, hint: str) -> None:
    assert did_you_mean(name, ["eV", "hartree", "kcal/mol"]) == hint


def test_an_unknown_name_lists_what_there_is() -> None:
    assert str(UnknownNameError("rung", "dft", ["xtb", "checks"])) == 'unknown rung "dft"; known: checks, xtb'
