"""Tables and paragraphs of a terminal."""

from __future__ import annotations

from sciagent.api.terminal import Paragraph, cell_text, columns_of, records_table, text_of


def test_a_column_that_is_empty_everywhere_is_left_out() -> None:
    assert columns_of([{"a": 1, "b": None}, {"c": 2, "b": ""}]) == ["a", "c"]


def test_cells_are_short() -> None:
    cells = [cell_text(value) for value in (None, True, 1.23456, 12345.6, float("nan"), "a" * 64)]
    assert cells == ["", "yes", "1.235", "12346", "", "aaaaaaaaaaaa…"]


def test_numbers_stand_to_the_right_and_paragraphs_under_their_indent() -> None:
    table = text_of(records_table([{"rung": "dft", "n": 12}, {"rung": "xtb", "n": 3}], "rungs"))
    assert table.splitlines()[-2:] == [" dft   12", " xtb    3"]
    assert text_of(Paragraph("a", 0), Paragraph("b", 2)) == "a\n    b"
