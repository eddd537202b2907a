"""What a terminal is shown of a running campaign."""

from __future__ import annotations

import pytest

from sciagent import Campaign
from sciagent.api.progress import Progress, one_line
from sciagent.api.running import Silence
from sciagent.api.showing import in_notebook, view_of


def test_a_terminal_gets_lines_and_silence_nothing(done: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    view = view_of(done.ledger.store, "toys", True)
    assert isinstance(view, Progress) and not in_notebook()
    assert isinstance(view_of(done.ledger.store, "toys", False), Silence)
    with view:
        view.step()
    assert "5 proposals · 5 candidates · 2 hits" in capsys.readouterr().err


def test_the_last_words_name_the_hits_and_the_report(done: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    Progress(done.ledger.store, "toys").summary(done.status(), None)
    said = capsys.readouterr().err
    assert "c1ccccc1" in said and "finished: nothing is left to do" in said


def test_a_line_says_how_many_passed_each_rung(done: Campaign) -> None:
    assert one_line(done.status()).endswith("passed/done: molecule_safety 5/5, checks 5/5, toy 2/5")
