"""The status of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from sciagent.domain.answers.audit import AuditReport
from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.jobs.states import CampaignState
from sciagent.domain.tiers import Tier


class DriverState(AnswerModel):
    """The process that drives a campaign, or drove it last."""

    host: str
    """Name of the driver's machine."""
    pid: str
    """Process id of the driver."""
    alive: bool
    """Whether the driver's lease is valid and its process is not known to have ended."""
    until: datetime
    """End of the driver's lease (UTC)."""


class RungCounts(AnswerModel):
    """Outcomes of the candidates at a rung, counted."""

    rung: str
    """Label of the rung."""
    tier: Tier
    """Tier of its verifier."""
    done: int
    """Number of candidates that the rung answered."""
    passed: int
    """Number of candidates that passed the rung or went on without it."""
    failed: int
    """Number of candidates that failed the gate or the objectives, or to which the rung does not apply."""
    inconclusive: int
    """Number of candidates that the rung could not decide."""
    errors: int
    """Number of candidates for which the rung ended with an error."""
    core_seconds: float
    """Cost of the rung so far, in core-seconds."""
    running: int
    """Number of candidates whose job is queued or running."""
    jobs: int
    """Number of jobs of the rung."""


class RateUse(AnswerModel):
    """A limit on the spending in any seven days."""

    amount: float
    """The limit, in the resource's unit."""
    per: str
    """The span of time: `week`."""
    used: float
    """Amount spent in the last seven days, in the resource's unit."""


class CampaignCounts(AnswerModel):
    """The counts of a campaign; the query is cheap enough to run every second."""

    campaign: str
    """Name of the campaign."""
    state: CampaignState
    """State of the campaign; `driver` shows whether a process runs it."""
    stop_reason: str | None
    """Reason why the campaign ended or was interrupted."""
    trouble: str | None
    """Reason why its jobs cannot run; null without a problem."""
    spent: Mapping[str, float]
    """Amount spent by resource; `core_seconds` and `wall_minutes` are always present."""
    budget: Mapping[str, int | float | Mapping[str, int] | None]
    """Limits of the whole campaign; `rungs` holds the runs by rung."""
    proposals: int
    """Number of proposed texts."""
    unreadable: int
    """Number of proposals that could not be read as a structure."""
    candidates: int
    """Number of different structures."""
    hits: int
    """Number of candidates that meet every objective."""
    hits_by_tier: Mapping[str, int]
    """Number of hits by the tier of the rung that decided."""
    reused: int
    """Number of answers taken from earlier evidence at no cost."""
    held: int
    """Number of candidates that a person holds."""
    vetoed: int
    """Number of candidates that a person vetoed."""
    driver: DriverState | None
    """Driver of the campaign; null if it has no driver and its last driver ended properly."""
    rungs: tuple[RungCounts, ...]
    """Counts, one entry per rung, in ladder order."""
    rates: Mapping[str, RateUse] = Field(default={}, exclude_if=lambda rates: not rates)
    """Limits on the spending in any seven days, by resource; left out where the budget has none."""


class RungWorth(AnswerModel):
    """The value that a rung adds to the open candidates."""

    rung: str
    """Label of the rung."""
    brings: float
    """Value that would be lost without the rung, in the unit of `worth`."""


class LadderWorth(AnswerModel):
    """The value of each rung, as of the last fit of the law."""

    worth: float
    """Expected payoff of the open candidates minus their price: in hits, or in payoff for `best` and `graded`."""
    rungs: tuple[RungWorth, ...]
    """Contribution of each rung."""
    words: str
    """The values as a sentence."""


class ProposerResults(AnswerModel):
    """The results of a proposer and their cost."""

    proposer: str
    """Name of the proposer; `people` for proposals without a turn."""
    episodes: int
    """Number of episodes that the proposer began."""
    turns: int
    """Number of turns that the proposer took."""
    proposals: int
    """Number of proposed texts."""
    readable: int
    """Number of proposals that were read as a structure."""
    new: int
    """Number of structures that this proposer proposed first."""
    duplicates: int
    """Number of proposals of structures that were already in the campaign."""
    refused: int
    """Number of refused proposals."""
    verified: int
    """Number of its candidates with an answer of a paid rung."""
    hits: int
    """Number of its candidates that are hits."""
    hits_in_seeds: int
    """Number of its hits that a seed file contains."""
    utility: float | None
    """Best utility of its settled candidates."""
    costs: Mapping[str, float]
    """Cost of its candidates and of its own turns, by resource."""
    hits_per_core_hour: float | None
    """Hits per core-hour; null where no core-seconds were booked."""


class JudgeAgreement(AnswerModel):
    """The agreement of a judge's score with the utility of the terminal rung's values."""

    rung: str
    """Label of the judge's rung."""
    against: str
    """Label of the terminal rung."""
    n: int
    """Number of candidates that both rungs answered."""
    spearman: float | None
    """Rank correlation of score and utility; null below five candidates."""
    low: float | None
    """Lower end of the correlation's 95 % interval."""
    high: float | None
    """Upper end of the correlation's 95 % interval."""
    bias: float | None
    """Mean of score minus utility."""
    words: str
    """The agreement as a sentence."""


class Status(CampaignCounts):
    """The status of a campaign: counts, cost, audit, and the value of its rungs, proposers and judges."""

    audit: AuditReport | None
    """Results of the audit; null where the scheduler does not audit its choices."""
    value: LadderWorth | None
    """Value of each rung; null before the first fit of a law."""
    proposers: tuple[ProposerResults, ...]
    """Results of the proposers, the most successful first."""
    opinions: tuple[JudgeAgreement, ...]
    """Agreement of the judges, one entry per judge below the terminal rung."""
