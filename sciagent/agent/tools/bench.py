"""What the tools of an agent may do and see: a workbench, and what a campaign can tell of itself."""

from __future__ import annotations

from typing import Protocol, TypedDict

from sciagent.domain.ports import Workbench


class Past(TypedDict):
    """An earlier proposal. status: new | duplicate | refused. standing: open, dropped, … or None; score: None while
    nothing is known; reason: why it was refused or dropped, or empty."""

    text: str
    key: str | None
    status: str
    standing: str | None
    reason: str
    operation: str
    score: float | None


class AgentBench(Workbench, Protocol):
    """Implemented by `campaign`. Whatever the tools hand in has passed their checks: plain text of bounded length."""

    def results_of(self, key: str) -> list[str]:
        """One line per paid rung that has answered on the candidate."""

    def recent(self, n: int) -> list[Past]:
        """The last n proposals of the campaign and what became of them, latest first."""

    def left(self) -> dict[str, float]:
        """What may still be spent, by resource: `proposals`, `core_seconds`, a rung's name, …"""

    def note(self, text: str) -> None:
        """Keep a remark for later episodes."""

    def goal(self) -> str:
        """What the campaign looks for, in a few lines."""
