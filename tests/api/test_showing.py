"""How a running campaign is shown."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sciagent import Campaign
from sciagent.api.showing import view_of, who_proposes


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
    assert len(shown) == 4 and "toys: finished" in shown[0] and "took back 2 jobs" in shown[-1]


def test_the_proposer_is_named(done: Campaign) -> None:
    assert who_proposes(done.spec).startswith("candidates are proposed by screen, a script")
