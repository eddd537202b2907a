"""What becomes of characters that no database and no terminal takes."""

from __future__ import annotations

import pytest

from sciagent.domain.safe_text_and_durations import MAX_TEXT, clean, escaped, read_id, storable, without_secrets


def test_null_characters_and_lone_surrogates_become_replacement_characters() -> None:
    assert storable("a\0b\ud800\r\n\té\U0001f9ea") == "a\ufffdb\ufffd\r\n\té\U0001f9ea"


def test_control_characters_are_replaced_and_long_text_is_cut() -> None:
    assert clean("a\0b\x1b[31m\ud800\tc\nd") == "a\ufffdb\ufffd[31m\ufffd\tc\nd"
    assert len(clean("x" * 9000)) == MAX_TEXT


def test_escaped_text_is_visible_ascii_where_it_was_invisible() -> None:
    assert escaped("a\x1b\u202e\ud83d é") == "a\\u001b\\u202e\\ud83d é"


def test_secrets_are_struck_out_and_short_words_stay() -> None:
    assert without_secrets("sk-12345678 and EMPTY", ("sk-12345678", "EMPTY", None, "")) == "[secret] and EMPTY"


@pytest.mark.parametrize(
    ("text", "number"), [("4711", 4711), ("0", 0), ("", None), ("-1", None), ("²", None), ("٢", None), ("9" * 18, None)]
)
def test_the_number_of_a_row_is_read(text: str, number: int | None) -> None:
    assert read_id(text) == number
