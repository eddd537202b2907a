"""The guards of a run: all of them check each step, and what they were told is kept in the folder of the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sciagent.training.guards.control_gap import ControlGapGuard
from sciagent.training.guards.exploitation import ExploitationGuard
from sciagent.training.guards.facts import StepFacts
from sciagent.training.guards.guard import Guard, StopReason
from sciagent.training.guards.kl_budget import KlBudgetGuard
from sciagent.training.guards import GuardSettings
from sciagent.training.guards.unsettled import UnsettledGuard

FILE = "guards.jsonl"
PATIENCE = 5  # steps after which a guard that can compute nothing says so


def guards_of(settings: GuardSettings) -> Iterator[Guard]:
    """Yields the guards that are not off."""
    if settings.control_gap is not None:
        yield ControlGapGuard(settings.control_gap, settings.level)
    if settings.exploitation is not None:
        yield ExploitationGuard(settings.exploitation, settings.level)
    if settings.kl_budget is not None:
        yield KlBudgetGuard(settings.kl_budget)
    if settings.unsettled is not None:
        yield UnsettledGuard(settings.unsettled)


class GuardWatch:
    """Checks the steps of a run. A run that goes on is told its earlier steps again from the file."""

    def __init__(self, settings: GuardSettings, folder: Path, done: int = 0) -> None:
        """folder: of the run. done: the step of the checkpoint from which it goes on; what came after is forgotten."""
        self._guards = list(guards_of(settings))
        self._path = folder / FILE
        self.stopped: StopReason | None = None
        """Why a guard has stopped the run already; None if none has."""
        kept = [facts for facts in _read(self._path) if facts.step <= done]
        for facts in kept:
            self.stopped = self._checked(facts) or self.stopped
        part = self._path.with_suffix(".part")
        part.write_text("".join(f"{facts.model_dump_json()}\n" for facts in kept), encoding="utf-8")
        part.replace(self._path)

    def check(self, facts: StepFacts) -> StopReason | None:
        """Returns why the run has to stop after this step; None if it may go on. Runs before the step's checkpoint."""
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write(f"{facts.model_dump_json()}\n")
            lines.flush()
            os.fsync(lines.fileno())
        self.stopped = self._checked(facts)
        return self.stopped

    def blind(self, step: int) -> tuple[str, ...]:
        """Returns a sentence for each guard that could not compute anything, once: after some steps."""
        if step != PATIENCE:
            return ()
        return tuple(f"guard {guard.name} is not at work: {guard.blind}" for guard in self._guards if guard.blind)

    def _checked(self, facts: StepFacts) -> StopReason | None:
        reasons = [guard.check(facts) for guard in self._guards]  # every guard is told every step
        return next((reason for reason in reasons if reason is not None), None)


def _read(path: Path) -> Iterator[StepFacts]:
    """Yields the steps of a file; a last line that a crash has cut is left out."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield StepFacts.model_validate_json(line)
