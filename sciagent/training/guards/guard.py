"""The protocol of guards: facts of a step in, and the reason to stop out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sciagent.training.guards.facts import StepFacts


@dataclass(frozen=True)
class StopReason:
    """The reason for which a guard stops a run."""

    name: str
    """Name of the guard: `control_gap`, `exploitation`, `kl_budget` or `unsettled`."""
    sentence: str
    number: float
    """Value that the guard has measured, in the unit of its limit."""
    limit: float


class Guard(Protocol):
    """A guard. It is told every step of a run, in order."""

    name: str

    def check(self, facts: StepFacts) -> StopReason | None:
        """Returns why the run has to stop after this step; None if it may go on."""

    @property
    def blind(self) -> str | None:
        """Why the guard could not compute anything so far; None if it could."""
