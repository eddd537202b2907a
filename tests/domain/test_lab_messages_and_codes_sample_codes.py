"""Codes of samples: what people misread is found."""

from __future__ import annotations

import pytest

from sciagent.domain.lab_messages_and_codes import CHECKS, LENGTH, SIGNS, new_code, read_code, with_check
from sciagent.errors import UsageError


def test_a_code_is_read_as_it_was_made() -> None:
    codes = {new_code() for _ in range(1000)}
    assert len(codes) == 1000
    assert all(read_code(code) == code and len(code) == LENGTH + 1 for code in codes)
    assert all(code.isalnum() for code in codes), "a gloved hand finds no ~ on a tablet"


def test_the_check_sign_is_the_number_modulo_37() -> None:
    assert with_check("16J") == "16JD", "1234 = 33 * 37 + 13, and the 13th sign is D"


def test_every_misread_or_exchanged_sign_is_found() -> None:
    code = with_check("0123456789")
    for place in range(LENGTH):
        for sign in SIGNS:
            if sign != code[place]:
                with pytest.raises(UsageError, match="was misread"):
                    read_code(code[:place] + sign + code[place + 1 :])
    for place in range(LENGTH - 1):
        with pytest.raises(UsageError, match="was misread"):
            read_code(code[:place] + code[place + 1] + code[place] + code[place + 2 :])


@pytest.mark.parametrize("text", ["", "0123", "0123456789", "0123456789AB", "!123456789A", "é123456789A"])
def test_what_is_no_code_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no code of a sample"):
        read_code(text)


def test_small_letters_hyphens_and_likely_mistakes_are_understood() -> None:
    code = with_check("01A11B22C3")
    assert read_code(f" {code[:5].lower().replace('0', 'o').replace('1', 'l')}-{code[5:]} ") == code
    assert set("*~$=U") <= set(CHECKS)
