"""Chooses how a running campaign is shown: a table in the terminal, or a display that updates in a notebook."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from sciagent.api import html
from sciagent.api.answers import status_html
from sciagent.api.interrupts import raise_interrupt
from sciagent.api.running import RunView, Silence
from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.campaign.spec.sources import OneProposerSpec
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import queries

REFRESH_SECONDS = 1.0


def view_of(ledger: Ledger, name: str, progress: bool | RunView) -> RunView:
    """progress: a view of the caller's own, or whether anything is shown."""
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return Silence()
    if in_notebook():
        return NotebookProgress(ledger, name)
    from sciagent.api.progress import Progress

    return Progress(ledger, name)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None


class NotebookProgress:
    """One display in a notebook's cell that is written again about once a second."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger, self._name = ledger, name
        self._handle: Any = None
        self._next = 0.0
        self._notes: list[str] = []

    def __enter__(self) -> NotebookProgress:
        self._show()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._show()  # the final state

    def step(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._show()
            self._next = now + max(REFRESH_SECONDS, 10 * (time.monotonic() - now))  # a tenth of the time goes into it

    def note(self, text: str) -> None:
        self._notes.append(text)
        self._show()

    def warn(self, text: str) -> None:
        self.note(text)

    def leave(self) -> None:
        raise_interrupt()

    def _show(self) -> None:
        from IPython.display import HTML, display

        with self._ledger.read() as connection:
            status = queries.counts(connection, campaigns.get(connection, self._name))
        notes = "".join(html.paragraph(text, soft=True) for text in self._notes[-3:])
        shown = HTML(status_html(status) + (html.box(notes) if notes else ""))
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)


def who_proposes(spec: CampaignSpec) -> str:
    """Who proposes the candidates: a model, or a script and how to name a model."""
    named = spec.proposers
    if len(named) > 1:
        listed = ", ".join(f"{name} ({_in_words(proposer)})" for name, proposer in named)
        return f"candidates are proposed side by side by {listed}"
    proposer = named[0][1]
    if proposer.kind == "llm":
        return f"candidates are proposed by {_in_words(proposer)}"
    model = "proposer: {kind: llm, model: NAME}"
    return f"candidates are proposed by {proposer.kind}, a script; a language model does it with {model} in the YAML"


def _in_words(proposer: OneProposerSpec) -> str:
    if proposer.kind != "llm":
        return proposer.kind
    return f"the model {proposer.model}" + (f" at {proposer.endpoint}" if proposer.endpoint else "")
