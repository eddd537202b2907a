"""How a campaign stands."""

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
    """Its machine."""
    pid: str
    """Its process id."""
    alive: bool
    """Whether its lease runs and its process is not known to be gone."""
    until: datetime
    """End of its lease (UTC)."""


class RungCounts(AnswerModel):
    """What became of the candidates at a rung."""

    rung: str
    """Label of the rung."""
    tier: Tier
    """Tier of its verifier."""
    done: int
    """Candidates that it answered."""
    passed: int
    """Candidates that passed it, or went on without it."""
    failed: int
    """Candidates that failed its gate or the objectives, or to which it does not apply."""
    inconclusive: int
    """Candidates that it could not decide."""
    errors: int
    """Candidates for which it ended with an error."""
    core_seconds: float
    """What it has cost, in core-seconds."""
    running: int
    """Candidates whose job is out."""
    jobs: int
    """Jobs that it was asked to run."""


class RateUse(AnswerModel):
    """A limit on what may be spent in any seven days."""

    amount: float
    """The limit, in the resource's unit."""
    per: str
    """The span of time: `week`."""
    used: float
    """Spent in the last seven days."""


class CampaignCounts(AnswerModel):
    """What the ledger counts of a campaign: cheap enough to be asked every second."""

    campaign: str
    """Name of the campaign."""
    state: CampaignState
    """State of the campaign; see `driver` for whether anything runs."""
    stop_reason: str | None
    """Why it ended or was interrupted."""
    trouble: str | None
    """What keeps its jobs from running."""
    spent: Mapping[str, float]
    """Spent by resource; `core_seconds` and `wall_minutes` are always there."""
    budget: Mapping[str, int | float | Mapping[str, int] | None]
    """Limits of the whole campaign; `rungs` has runs by rung."""
    proposals: int
    """Texts that were handed in."""
    unreadable: int
    """Proposals that could not be read as a structure."""
    candidates: int
    """Different structures."""
    hits: int
    """Candidates that meet every objective."""
    hits_by_tier: Mapping[str, int]
    """Hits by the tier of the rung that decided."""
    reused: int
    """Answers taken from earlier evidence at no cost."""
    held: int
    """Candidates that a person holds."""
    vetoed: int
    """Candidates that a person took out."""
    driver: DriverState | None
    """Who drives it; null where nobody does and nobody died driving it."""
    rungs: tuple[RungCounts, ...]
    """One entry a rung, in ladder order."""
    rates: Mapping[str, RateUse] = Field(default={}, exclude_if=lambda rates: not rates)
    """Limits on any seven days, by resource; left out where the budget has none."""


class RungWorth(AnswerModel):
    """What a rung adds to the value of the candidates ahead."""

    rung: str
    """Label of the rung."""
    brings: float
    """Value that would be lost without it, in the unit of `worth`."""


class LadderWorth(AnswerModel):
    """Which rungs earn their keep, as of the last fit of the law."""

    worth: float
    """What the candidates ahead promise less what they will cost: in hits, or payoff for `best` and `graded`."""
    rungs: tuple[RungWorth, ...]
    """What each rung brings of it."""
    words: str
    """The same as a sentence."""


class ProposerResults(AnswerModel):
    """What a proposer achieved and what it cost."""

    proposer: str
    """Its name; `people` for proposals without a turn."""
    episodes: int
    """Episodes that it began."""
    turns: int
    """Turns that it took."""
    proposals: int
    """Texts that it handed in."""
    readable: int
    """Proposals of which a structure could be made."""
    new: int
    """Structures that it proposed first."""
    duplicates: int
    """Proposals of structures that were there."""
    refused: int
    """Proposals that were turned away."""
    verified: int
    """Its candidates with an answer of a paid rung."""
    hits: int
    """Its candidates that are hits."""
    hits_in_seeds: int
    """Its hits that stood in a file of seeds."""
    utility: float | None
    """The best utility of its settled candidates."""
    costs: Mapping[str, float]
    """What its candidates and its own turns cost, by resource."""
    hits_per_core_hour: float | None
    """Null where no core-seconds were booked."""


class JudgeAgreement(AnswerModel):
    """How far a judge's score can be trusted, against the utility that the terminal rung's values have."""

    rung: str
    """Label of the judge's rung."""
    against: str
    """Label of the terminal rung."""
    n: int
    """Candidates that both answered."""
    spearman: float | None
    """Rank correlation of score and utility; null below five candidates."""
    low: float | None
    """Lower end of its 95 % interval."""
    high: float | None
    """Upper end of its 95 % interval."""
    bias: float | None
    """Score less utility, on average."""
    words: str
    """The same as a sentence."""


class Status(CampaignCounts):
    """How a campaign stands: counts, cost, what the audit says, which rungs and proposers earn their keep."""

    audit: AuditReport | None
    """Null where the scheduler does not audit its choices."""
    value: LadderWorth | None
    """Null before there is a law."""
    proposers: tuple[ProposerResults, ...]
    """The most successful first."""
    opinions: tuple[JudgeAgreement, ...]
    """One entry a judge below the terminal rung."""
