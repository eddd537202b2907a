"""What the end of an attempt means for its job: its next state, kills, losses and cost, whoever ran it.

A *kill* is a process that died under the job while its worker lived. A *loss* is an attempt whose worker or driver
vanished: nobody can tell whether the machine or the job is to blame, so a job survives more losses than kills.
"""

from __future__ import annotations

from dataclasses import dataclass

from sciagent.domain.cost import Cost
from sciagent.domain.jobs.states import AttemptState, JobState
from sciagent.domain.outcomes import Outcome, Reason

MAX_KILLS = 2  # the job is then quarantined
MAX_LOSSES = 5
TRIED_AGAIN = (Outcome.CRASHED, Outcome.LOST)
DEATHS = (Reason.SIGNAL, Reason.WORKER_DIED, Reason.LEASE_EXPIRED)  # of a process; all else is the plug-in's own fault


@dataclass(frozen=True)
class AfterAttempt:
    """What an attempt's end makes of its job."""

    job: JobState
    attempt: AttemptState
    kills: int = 0
    """Kills that this attempt adds to its job."""
    losses: int = 0
    """Losses that this attempt adds to its job."""

    @property
    def is_over(self) -> bool:
        """Whether the job will not be tried again by itself."""
        return self.job is not JobState.QUEUED


def after_result(
    outcome: Outcome, reason: Reason | None, *, kills: int, interrupted: bool = False, cancelled: bool = False
) -> AfterAttempt:
    """The attempt came back with this outcome.

    kills: of the job before this attempt. interrupted: whoever ran the job ended it on purpose. cancelled: a person
    wants the job to end; a result that came before that was paid for, and is kept.
    """
    if cancelled:
        if outcome.rule.is_evidence:
            return AfterAttempt(JobState.DONE, AttemptState.CANCELLED_LATE)
        return AfterAttempt(JobState.CANCELLED, AttemptState.CANCELLED)
    if outcome.rule.is_evidence:
        return AfterAttempt(JobState.DONE, AttemptState.DONE)
    if outcome is Outcome.LOST and interrupted:
        return AfterAttempt(JobState.QUEUED, AttemptState.CANCELLED)
    if outcome not in TRIED_AGAIN:
        return AfterAttempt(JobState.FAILED, AttemptState.FAILED)
    kill = int(not interrupted)
    gives_up = kills + 1 >= MAX_KILLS or reason is Reason.BAD_RESULT  # it would say the same again
    return AfterAttempt(JobState.QUARANTINED if gives_up else JobState.QUEUED, AttemptState.FAILED, kills=kill)


def after_loss(*, losses: int, cancelled: bool = False) -> AfterAttempt:
    """The worker or driver that ran the attempt has vanished. losses: of the job before this attempt."""
    gives_up = losses + 1 >= MAX_LOSSES
    state = JobState.CANCELLED if cancelled else JobState.QUARANTINED if gives_up else JobState.QUEUED
    return AfterAttempt(state, AttemptState.LOST, losses=1)


def after_recall(*, cancelled: bool = False) -> AfterAttempt:
    """The attempt was taken back: it had not begun, or the campaign was stopped. It counts for nothing."""
    return AfterAttempt(JobState.CANCELLED if cancelled else JobState.QUEUED, AttemptState.CANCELLED)


def cost_of_killed(wall_seconds: float, cores: int) -> Cost:
    """Cost of an attempt that nobody could measure: the time that went by on all the cores that it held."""
    return Cost(core_seconds=max(0.0, wall_seconds) * cores)
