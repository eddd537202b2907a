"""HTML of what notebooks show."""

from __future__ import annotations

from sciagent.api import html


def test_a_table_is_escaped_drawn_and_aligned() -> None:
    made = html.table([{"smiles": "CCO", "n": 3, "said": "<script>"}, {"smiles": "not one", "n": None, "said": None}])
    assert made.count("<svg") == 1 and "&lt;script&gt;" in made and "<script>" not in made
    assert '<td class="n">3</td>' in made


def test_a_column_that_is_empty_everywhere_is_left_out() -> None:
    assert html.columns_of([{"a": 1, "b": None}, {"c": 2, "b": ""}]) == ["a", "c"]


def test_cells_are_short() -> None:
    assert [html.cell_text(x) for x in (None, True, 1.23456, float("nan"), "a" * 64)] == [
        "", "yes", "1.235", "", "aaaaaaaaaaaa…",
    ]  # fmt: skip
