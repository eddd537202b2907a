"""Tables and queries: a query never holds all of its rows."""

from __future__ import annotations

import sys

import pytest

from sciagent import Campaign
from sciagent.errors import UsageError
from sciagent.report.parts import export_rows


def test_a_query_is_read_in_pages(done: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_rows, "PAGE_ROWS", 2)
    assert [row.smiles for row in done.candidates()] == [row.smiles for row in done.candidates().head(9)]
    assert [row.smiles for row in done.candidates().head(3)] == [row.smiles for row in done.candidates()][:3]
    assert len(done.candidates()) == 5


def test_a_table_is_a_sequence_of_frozen_rows(done: Campaign) -> None:
    best = done.best()
    assert len(best) == 5 and best[0].hit and len(best[1:3]) == 2
    assert list(best.to_pandas()["toy_energy"][:2]) == [6, 5]
    assert "toy_energy [kJ/mol]" in repr(best) and "6.0 ± 0.2" in repr(best)


def test_without_pandas_a_data_frame_says_what_to_install(done: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for answer in (done.best(), done.candidates()):
        with pytest.raises(UsageError, match="pip install pandas"):
            answer.to_pandas()
    assert len(list(done.candidates())) == 5
