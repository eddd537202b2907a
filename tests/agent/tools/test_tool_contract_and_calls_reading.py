"""The arguments of a call are one bounded JSON object; anything else is refused with the reason."""

from __future__ import annotations

import pytest

from sciagent.agent.tools.tool_contract_and_calls import MAX_CHARACTERS, CallError, read_arguments


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
        ("[1]", "one JSON object"),
        ("3", "one JSON object"),
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"a": NaN}', "number that cannot be used"),
        ('{"a": 1e999}', "number that cannot be used"),
        ('{"a": %s}' % ("9" * 5000), "number that cannot be used"),
        ('{"a": "\\ud800"}', "half of a UTF-16 surrogate pair"),
        ('{"a": ' + "[" * 9000 + "]" * 9000 + "}", "nested too deeply"),
        (" " * (MAX_CHARACTERS + 1), "the limit is"),
        ('{"a": }', "line 1, column 7"),
    ],
)
def test_what_is_not_one_plain_object_is_refused(text: object, why: str) -> None:
    with pytest.raises(CallError, match=why):
        read_arguments(text)
