"""Tables and paragraphs of a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sciagent.api.terminal_tables_and_signals import Part, cell_text, columns_of, folded, records_table, show, text_of
from sciagent.domain.safe_text_and_durations import Paragraph


def test_a_column_that_is_empty_everywhere_is_left_out() -> None:
    assert columns_of([{"a": 1, "b": None}, {"c": 2, "b": ""}]) == ["a", "c"]


def test_cells_are_short() -> None:
    cells = [cell_text(value) for value in (None, True, 1.23456, 12345.6, float("nan"), "a" * 64)]
    assert cells == ["", "yes", "1.235", "12346", "", "aaaaaaaaaaaa…"]


def test_no_text_steers_the_terminal() -> None:
    name = "red \x1b[31m and \u202e turned"
    shown = text_of(records_table([{"name": name}]), Paragraph(name), name)
    assert "\x1b" not in shown and "\u202e" not in shown and shown.count("\\u001b[31m and \\u202e turned") == 3


def test_numbers_stand_to_the_right_and_paragraphs_under_their_indent() -> None:
    table = text_of(records_table([{"rung": "dft", "n": 12}, {"rung": "xtb", "n": 3}], "rungs"))
    assert table.splitlines()[-2:] == [" dft   12", " xtb    3"]
    assert text_of(Paragraph("a", 0), Paragraph("b", 2)) == "a\n    b"


LONG = "C" * 90


def on_a_terminal(width: int, *parts: Part) -> list[str]:
    console = Console(width=width, force_terminal=True, color_system=None, file=io.StringIO())
    show(*parts, console=console)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_structure_is_never_broken(width: int) -> None:
    table = records_table([{"smiles": LONG, "level": "a level of several words", "n": 3}], "best")
    lines = on_a_terminal(width, table, Paragraph(f"the parent of {LONG}, once"))
    assert len([line for line in lines if LONG in line]) == 2
    assert any(line.endswith(LONG) for line in lines), "it is the last column"
    assert max(len(line) for line in lines if LONG not in line) <= width + len(LONG)


def test_a_header_is_as_narrow_as_its_cells_and_words() -> None:
    assert folded("solvation_free_energy [kcal/mol]", 12) == "solvation_\nfree_energy\n[kcal/mol]"
    assert folded("homo_lumo_gap [eV]", 40) == "homo_lumo_gap [eV]"


def test_a_table_that_fits_is_as_wide_as_its_cells() -> None:
    assert max(map(len, on_a_terminal(80, records_table([{"smiles": "CCO", "n": 1}])))) < 15


def test_into_a_pipe_a_table_is_tab_separated_with_a_header() -> None:
    records = [{"smiles": "C#N", "value": "2.9 ± 0.1 eV", "note": "two\nlines\tone cell"}, {"smiles": LONG, "value": 3}]
    out = io.StringIO()
    show(records_table(records, "a title"), console=Console(file=out))
    assert out.getvalue() == f"value\tnote\tsmiles\n2.9 ± 0.1 eV\ttwo; lines one cell\tC#N\n3\t\t{LONG}\n"


def test_into_a_pipe_titles_stand_between_tables_and_a_paragraph_is_one_line() -> None:
    out = io.StringIO()
    text = "word " * 40 + "end"
    show(records_table([{"n": 1}], "rungs"), Paragraph(text), console=Console(file=out))
    assert out.getvalue() == f"rungs\nn\n1\n  {text}\n"
