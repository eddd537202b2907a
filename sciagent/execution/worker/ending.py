"""What an attempt's outcome makes of its job: over, tried again, or quarantined. The same for whoever runs it."""

from __future__ import annotations

from sciagent.domain.evidence import Finding
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.states import AttemptState, JobState
from sciagent.store.job_queue import jobs

TRIED_AGAIN = (Outcome.CRASHED, Outcome.LOST)
DEATHS = (
    Reason.SIGNAL,
    Reason.WORKER_DIED,
    Reason.LEASE_EXPIRED,
)  # of the process; all else is the plug-in's own fault


def states_of(
    finding: Finding, kills: int, interrupted: bool, cancelled: bool = False
) -> tuple[JobState, AttemptState]:
    """kills: how many workers the job has killed, should this have been one. interrupted: whoever ran it killed it.
    cancelled: a person wants it to be ended; a result that came before that reached it was paid for, and is kept."""
    outcome = finding.outcome
    if cancelled:
        late = (JobState.DONE, AttemptState.CANCELLED_LATE)
        return late if outcome.rule.is_evidence else (JobState.CANCELLED, AttemptState.CANCELLED)
    if outcome.rule.is_evidence:
        return JobState.DONE, AttemptState.DONE
    if outcome is Outcome.LOST and interrupted:
        return JobState.QUEUED, AttemptState.CANCELLED
    if outcome in TRIED_AGAIN:
        gives_up = kills >= jobs.MAX_KILLS or finding.reason is Reason.BAD_RESULT  # it would say the same again
        return (JobState.QUARANTINED if gives_up else JobState.QUEUED), AttemptState.FAILED
    return JobState.FAILED, AttemptState.FAILED
