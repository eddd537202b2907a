"""The arguments of a call are one bounded JSON object; anything else is refused with the reason."""

from __future__ import annotations

import pytest

from sciagent.agent.tools.reading import MAX_CHARACTERS, MAX_DEPTH, CallError, read_arguments


@pytest.mark.parametrize(
    ("text", "found"),
    [("", {}), (" \n", {}), ('{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}), ('{"a": "[[[[[[[[[["}', {"a": "[" * 10})],
)
def test_one_object_is_read(text: str, found: object) -> None:
    assert read_arguments(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "not NoneType"),
        ("[1]", "not a list"),
        ("3", "not a number"),
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": 1e999}', "too long or too large"),
        ('{"a": %s}' % ("9" * 1000), "1000 digits"),
        ('{"a": "\\ud800"}', "half of a UTF-16 surrogate pair"),
        ('{"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "nested deeper"),
        (" " * (MAX_CHARACTERS + 1), "the limit is"),
        ('{"a": }', "line 1, column 7"),
    ],
)
def test_what_is_not_one_plain_object_is_refused(text: object, why: str) -> None:
    with pytest.raises(CallError, match=why):
        read_arguments(text)
