"""The tables of the page on MADE are those of its committed results."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.made import table

HERE = Path(table.__file__).parent


def test_the_page_has_the_tables_of_the_committed_results(capsys: pytest.CaptureFixture[str]) -> None:
    table.main(HERE / "results.json")
    printed = [line for line in capsys.readouterr().out.splitlines() if line]
    page = (HERE / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(printed) >= 10
    assert [line for line in printed if line not in page] == []


def test_a_difference_has_its_sign_and_interval() -> None:
    assert table.cell([1.0, 2.0, 3.0], 1, "+") == "+2.0 (-0.5 to 4.5)"
    assert table.cell([2.0], 1) == "2.0"
    assert table.cell(None, 1) == "–"
