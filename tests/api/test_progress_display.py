"""What a terminal is shown of a running campaign."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sciagent import Campaign
from sciagent.api.progress_display import Progress, in_notebook, one_line, view_of
from tests.api.conftest import toy_keys, write_molecules


def test_a_terminal_gets_lines_and_silence_nothing(done: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    view = view_of(done.ledger.store, "toys", True)
    assert isinstance(view, Progress) and not in_notebook()
    with view:
        view.step()
    assert "5 proposals · 5 candidates · 2 hits" in capsys.readouterr().err
    with view_of(done.ledger.store, "toys", False) as silent:
        silent.step()
        silent.note("took back a job")
    assert capsys.readouterr().err == ""


def test_the_last_words_name_the_hits_and_the_report(done: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    Progress(done.ledger.store, "toys").summary(done.status(), None)
    said = capsys.readouterr().err
    assert "c1ccccc1" in said and "finished: nothing is left to do" in said


def test_a_line_says_how_many_passed_each_rung(done: Campaign) -> None:
    assert one_line(done.status()).endswith("passed/done: molecule_safety 5/5, checks 5/5, toy 2/5")


def test_a_notebook_gets_one_display_that_is_updated(done: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, page: Any) -> None:
            shown.append(page.data)

    def display(page: Any, display_id: bool) -> Handle:
        shown.append(page.data)
        return Handle()

    import IPython.display

    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace(kernel=object()))
    view = view_of(done.ledger.store, "toys", True)
    with view:
        view.step()
        view.note("took back 2 jobs of a driver that died")
    assert len(shown) == 3 and "toys: finished" in shown[0] and "took back 2 jobs" in shown[1]
    assert "the best hits" not in shown[0] and "the best hits" in shown[-1] and "c1ccccc1" in shown[-1]


def test_a_campaign_for_the_best_ends_with_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verified candidates are printed, at most as many as were asked for."""
    write_molecules(tmp_path)
    keys = toy_keys(ledger=tmp_path / "toys.db", base=tmp_path) | {"goal": {"kind": "best", "count": 3}}
    campaign = Campaign(**keys)
    Progress(campaign.ledger.store, "toys").summary(campaign.run(progress=False), None)
    told = capsys.readouterr().err
    best = [candidate.smiles for candidate in campaign.best(3)]
    assert "the best" in told and all(smiles in told for smiles in best) and len(best) == 3
    campaign.ledger.close()
