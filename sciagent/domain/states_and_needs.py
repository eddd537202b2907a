"""The states of jobs, attempts, campaigns and of a candidate in a campaign, with the allowed transitions.

People steer a campaign by directives. Each directive is a row that never changes; a later row revokes it.

A *kill* is an attempt whose process died while its worker lived. A *loss* is an attempt whose worker or driver
disappeared. The cause of a loss may be the machine or the job, so a job survives more losses than kills.

A job holds resources while it runs: cores, GPUs and others, counted by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.safe_text_and_durations import cut, duration

MAX_KILLS = 2  # kills after which a job is quarantined
MAX_PROGRESS_TEXT = 200  # characters
OLD_REPORT_SECONDS = 30.0  # age from which a report of progress says how old it is
MAX_LOSSES = 5  # losses after which a job is quarantined
TRIED_AGAIN = (Outcome.CRASHED, Outcome.LOST)  # outcomes after which a job is queued again
DEATHS = (Reason.SIGNAL, Reason.WORKER_DIED, Reason.LEASE_EXPIRED)  # a process died; others are faults of the plug-in


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"  # killed two workers


class AttemptState(StrEnum):
    """The state of an attempt to run a job."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"  # the lease expired
    STALE = "stale"  # finished after another worker had taken over
    CANCELLED = "cancelled"
    CANCELLED_LATE = "cancelled_late"  # finished before the cancellation reached it; the result is kept


class CampaignState(StrEnum):
    """The state of a campaign."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"  # by a person: the driver, if one runs, stays and starts nothing
    WAITING = "waiting"  # for people's answers alone: no driver runs
    INTERRUPTED = "interrupted"
    FINISHED = "finished"  # goal reached or nothing left to do
    BUDGET_SPENT = "budget_spent"
    FAILED = "failed"


NOTHING_LEFT = "nothing is left to do"
"""Stop reason of a campaign in which every candidate has its verdict and no more are proposed."""
NOT_PROMOTED = "were not promoted"
"""Words in the stop reason of a campaign whose scheduler leaves candidates waiting on purpose."""


class Standing(StrEnum):
    """The state of a candidate in a campaign."""

    OPEN = "open"  # may be promoted
    PENDING = "pending"  # its job is queued or running
    DROPPED = "dropped"  # a gate failed, a rung could not decide, or it is out of reach
    SETTLED = "settled"  # has its terminal evidence
    HELD = "held"  # held by a person, otherwise open
    VETOED = "vetoed"  # excluded by a person


ATTEMPT_TRANSITIONS: dict[AttemptState, frozenset[AttemptState]] = {
    AttemptState.RUNNING: frozenset(set(AttemptState) - {AttemptState.RUNNING}),
    AttemptState.LOST: frozenset({AttemptState.STALE}),
    **dict.fromkeys(set(AttemptState) - {AttemptState.RUNNING, AttemptState.LOST}, frozenset()),
}

CAMPAIGN_TRANSITIONS: dict[CampaignState, frozenset[CampaignState]] = {
    CampaignState.CREATED: frozenset({CampaignState.RUNNING}),
    CampaignState.RUNNING: frozenset(set(CampaignState) - {CampaignState.CREATED, CampaignState.RUNNING}),
    CampaignState.PAUSED: frozenset(set(CampaignState) - {CampaignState.CREATED, CampaignState.PAUSED}),
    CampaignState.WAITING: frozenset({CampaignState.RUNNING, CampaignState.PAUSED}),
    CampaignState.INTERRUPTED: frozenset({CampaignState.RUNNING}),
    CampaignState.FAILED: frozenset({CampaignState.RUNNING}),
    CampaignState.FINISHED: frozenset({CampaignState.RUNNING}),  # after an amendment
    CampaignState.BUDGET_SPENT: frozenset({CampaignState.RUNNING}),
}

S = TypeVar("S", AttemptState, CampaignState)


def check_transition(table: dict[S, frozenset[S]], old: S, new: S) -> None:
    """Raises ValueError when the table does not allow old → new."""
    if new not in table[old]:
        allowed = ", ".join(sorted(table[old])) or "nothing"
        raise ValueError(f"{type(old).__name__}: {old} → {new} is not allowed; from {old} only {allowed}")


@dataclass(frozen=True)
class AfterAttempt:
    """The new states of an attempt and its job after the attempt's end."""

    job: JobState
    attempt: AttemptState
    kills: int = 0
    """Kills that this attempt adds to its job."""
    losses: int = 0
    """Losses that this attempt adds to its job."""

    @property
    def is_over(self) -> bool:
        """Whether the job will not be retried automatically."""
        return self.job is not JobState.QUEUED


def after_result(
    outcome: Outcome, reason: Reason | None, *, kills: int, interrupted: bool = False, cancelled: bool = False
) -> AfterAttempt:
    """Returns the new states after an attempt that ended with an outcome.

    kills: kills of the job before this attempt. interrupted: the worker or driver ended the job on purpose. cancelled:
    a person cancelled the job; a result that arrived is kept, since it is paid for."""
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
    added_kills = 0 if interrupted else 1
    # a retry after a bad result would give the same
    gives_up = kills + 1 >= MAX_KILLS or reason is Reason.BAD_RESULT
    job_state = JobState.QUARANTINED if gives_up else JobState.QUEUED
    return AfterAttempt(job_state, AttemptState.FAILED, kills=added_kills)


def after_loss(*, losses: int, cancelled: bool = False) -> AfterAttempt:
    """Returns the new states after the attempt's worker or driver was lost. losses: of the job before this attempt."""
    if cancelled:
        state = JobState.CANCELLED
    elif losses + 1 >= MAX_LOSSES:
        state = JobState.QUARANTINED
    else:
        state = JobState.QUEUED
    return AfterAttempt(state, AttemptState.LOST, losses=1)


def after_recall(*, cancelled: bool = False) -> AfterAttempt:
    """Returns the new states of an attempt that was withdrawn before its start or when the campaign stopped.

    The withdrawal counts neither as a kill nor as a loss."""
    job_state = JobState.CANCELLED if cancelled else JobState.QUEUED
    return AfterAttempt(job_state, AttemptState.CANCELLED)


@dataclass(frozen=True)
class ReportedProgress:
    """The progress that a running job has reported.

    Raises ValueError unless `0 <= done <= of`, with `of` above 0 and finite, and for a text that is too long.
    """

    done: float
    """Amount that is done, in units of the engine, such as chunks or steps."""
    of: float
    """The whole amount, in the same units."""
    text: str = ""
    """The present work in a few words."""
    remaining_seconds: float | None = None
    """Expected wall time from the report to the end, from the attempt's latest speeds; None while it is unknown."""
    age_seconds: float = 0.0
    """Time since the report."""

    def __post_init__(self) -> None:
        if not (0.0 <= self.done <= self.of < math.inf and self.of > 0.0):
            raise ValueError(f"progress of {self.done} of {self.of}; it takes 0 <= done <= of, and of above 0")
        if len(self.text) > MAX_PROGRESS_TEXT:
            raise ValueError(f"the text of the progress is longer than {MAX_PROGRESS_TEXT} characters")

    @classmethod
    def clipped(cls, done: float, of: float, text: str = "") -> ReportedProgress:
        """Returns the progress that an engine reports, with an amount beyond its limits and a long text cut, as a slip
        must not cost the job. Raises ValueError if `of` is not above 0 and finite, or if `done` is NaN."""
        if math.isnan(done):
            raise ValueError("progress of NaN")
        return cls(min(max(0.0, float(done)), float(of)), float(of), cut(text, MAX_PROGRESS_TEXT))

    @property
    def share(self) -> float:
        """The part that is done, 0 to 1."""
        return self.done / self.of

    @property
    def seconds_left(self) -> float | None:
        """Expected wall time to the end from now, at least 0; None while it is unknown."""
        if self.remaining_seconds is None:
            return None
        return max(0.0, self.remaining_seconds - self.age_seconds)

    @property
    def words(self) -> str:
        """The progress in words, such as `62 %, 14 min left: replica 2 of 3`; an old report says how old it is."""
        parts = [f"{100 * self.share:.0f} %"]
        if self.seconds_left is not None:
            parts.append(f"{duration(self.seconds_left)} left")
        if self.age_seconds > OLD_REPORT_SECONDS:
            parts.append(f"reported {duration(self.age_seconds)} ago")
        told = ", ".join(parts)
        return f"{told}: {self.text}" if self.text else told


Hear = Callable[[str, ReportedProgress], None]
"""A function that takes the progress of verifications. Its arguments are the key of a candidate and the report."""


def cost_of_killed(wall_seconds: float, cores: int) -> Cost:
    """Returns the cost of a killed attempt, which could not be measured: wall time times reserved cores."""
    return Cost(core_seconds=max(0.0, wall_seconds) * cores)


CORES = "cores"
GPU = "gpu"
NAME = r"^[a-z][a-z0-9_]{0,30}$"
"""Pattern of a resource's name."""
MOST = {CORES: 1024, GPU: 64}
"""Largest number of a resource that a job may request."""
MOST_OTHERS = 10_000
"""The same for each other resource."""
MOST_NAMES = 8
"""Largest number of different resources of a job."""
ELSEWHERE = {"memory": "limits.memory_mb", "memory_mb": "limits.memory_mb", "slots": "cores"}
"""{name that is no resource: key of a campaign file that sets what it means}."""
_NAME = re.compile(NAME)


def check_needs(needs: Mapping[str, int]) -> None:
    """Raises ValueError for a name or a number that no job may request."""
    if len(needs) > MOST_NAMES:
        raise ValueError(f"{len(needs)} names; at most {MOST_NAMES}")
    for name, n in needs.items():
        if not _NAME.fullmatch(name):
            short_name = name if len(name) <= 60 else name[:57] + "..."
            shown = repr(short_name)
            raise ValueError(f"{shown} is no name: a lower-case letter, then letters, digits and _, at most 31")
        if name in ELSEWHERE:
            raise ValueError(f"{name} is set by {ELSEWHERE[name]}")
        most = MOST.get(name, MOST_OTHERS)
        if not 1 <= n <= most:
            raise ValueError(f"{name}: {n}; from 1 to {most}")


def needs_text(needs: Mapping[str, int]) -> str | None:
    """Returns the text that the ledger stores, such as "cores=4 gpu=1", sorted by name; None for one core alone."""
    texts = []
    for name in sorted(needs):
        if (name, needs[name]) != (CORES, 1):
            texts.append(f"{name}={needs[name]}")
    return " ".join(texts) or None


def parse_needs(text: str | None) -> dict[str, int]:
    """Returns the resources of a text made by `needs_text`; cores are always among them."""
    needs = {CORES: 1}
    for pair in (text or "").split():
        name, _, n = pair.partition("=")
        needs[name] = int(n)
    return needs


def in_words(needs: Mapping[str, int]) -> str:
    """Returns a text for people, such as `4 cores, 1 gpu, 1 gaussian`."""
    texts = []
    for name, n in needs.items():
        noun = name
        if name == CORES:
            noun = "core" if n == 1 else "cores"
        texts.append(f"{n} {noun}")
    return ", ".join(texts)


class Verb(StrEnum):
    """The action that a directive asks of a campaign."""

    ADD = "add"
    HOLD = "hold"
    RELEASE = "release"
    VETO = "veto"
    PROMOTE = "promote"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    AMEND = "amend"


NOWHERE = -1
"""Stands for the rung position of a candidate that was not promoted; below all positions."""


@dataclass(frozen=True)
class SteeringState:
    """The current state of people's decisions on a candidate."""

    held: bool = False
    vetoed: bool = False
    promoted_to: int = NOWHERE
    """Rung position that the candidate was promoted to, waiving the gates below; NOWHERE without a promotion."""
    who: str = ""
    """Author of the latest decision."""
    why: str = ""
    """Reason for the latest decision."""

    @property
    def blocks_scheduling(self) -> bool:
        """Whether no job may be started for the candidate."""
        return self.held or self.vetoed


def fold_directives(directives: Iterable[tuple[str, int | None, str, str]]) -> SteeringState:
    """Returns the state after all directives. A veto ends a promotion.

    directives: (verb, rung position, author, reason) of each directive, oldest first."""
    steering = SteeringState()
    for verb, position, who, why in directives:
        if verb == Verb.HOLD:
            steering = replace(steering, held=True, who=who, why=why)
        elif verb == Verb.VETO:
            steering = SteeringState(vetoed=True, who=who, why=why)
        elif verb == Verb.RELEASE:
            steering = replace(steering, held=False, vetoed=False, who=who, why=why)
        elif verb == Verb.PROMOTE and position is not None:
            steering = replace(steering, promoted_to=max(steering.promoted_to, position), who=who, why=why)
    return steering
