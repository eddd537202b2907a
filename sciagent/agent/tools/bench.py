"""The workbench of an agent's tools: what they may do, and what a campaign reports of itself."""

from __future__ import annotations

from typing import Protocol, TypedDict

from sciagent.domain.campaigns.ports import Workbench


class Past(TypedDict):
    """An earlier proposal."""

    text: str
    key: str | None
    status: str
    """new | duplicate | refused."""
    standing: str | None
    """open, dropped, … or None."""
    reason: str
    """Why it was refused or dropped, or empty."""
    operation: str
    score: float | None
    """None while there is no result."""


class AgentBench(Workbench, Protocol):
    """Implemented in `campaign`. The tools pass only checked arguments: plain text of bounded length."""

    def results_of(self, key: str) -> list[str]:
        """One line per paid rung that has answered on the candidate."""

    def recent(self, n: int) -> list[Past]:
        """The last n proposals of the campaign and their outcome, latest first."""

    def left(self) -> dict[str, float]:
        """The remaining budget by resource: `proposals`, `core_seconds`, a rung's name, …"""

    def note(self, text: str) -> None:
        """Keep a remark for later episodes."""

    def goal(self) -> str:
        """The campaign's goal, in a few lines."""
