"""The answers on whole campaigns: the status of one, with its scheduler's audit, and the comparison of two."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import NamedTuple

from sciagent.domain.answers.candidate_and_value_answers import AnswerModel, CandidateName
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.states_and_needs import CampaignState


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
    spent: Mapping[str, float] = {}
    """Amount booked for the rung by resource, in the units of the campaign file: `money` in EUR, `person_hours` in
    hours, `core_seconds` in seconds."""
    running: int
    """Number of candidates whose job is queued or running."""
    jobs: int
    """Number of jobs of the rung."""


class ControlCounts(AnswerModel):
    """The runs of a campaign's control, which decides nothing."""

    rung: str
    """Label of the control."""
    jobs: int
    """Number of jobs of the control."""
    core_seconds: float
    """Cost of the control so far, in core-seconds; `spent` includes it."""


class RateUse(AnswerModel):
    """A limit on the spending in any seven days."""

    amount: float
    """The limit, in the resource's unit."""
    per: str
    """The span of time: `week`."""
    used: float
    """Amount spent in the last seven days, in the resource's unit."""
    until: date | None = omitted_if_unset(None)
    """Last day of the limit; left out if the file states none."""
    more_at: datetime | None = omitted_if_unset(None)
    """Time (UTC) at which less than the limit is used again; left out while some is left."""


class JobProgress(AnswerModel):
    """The progress of a running job."""

    job: int
    """Number of the job."""
    rung: str
    """Label of its rung."""
    candidate: str
    """The candidate's text."""
    done: float
    """Amount that is done, in units of the engine, such as chunks or steps."""
    of: float
    """The whole amount, in the same units."""
    remaining_seconds: float | None
    """Expected wall time to the end in seconds from now, by the speed of this attempt; null while it is unknown."""
    words: str
    """The progress in words."""
    started_at: datetime
    """Start of the attempt (UTC)."""
    reported_at: datetime
    """Time of the report (UTC)."""


class LabCounts(AnswerModel):
    """The tasks of a campaign, counted."""

    waiting: int
    """Tasks that wait for the word of a chemist."""
    queued: int
    """Tasks that nobody has claimed."""
    elsewhere: Mapping[str, int] = omitted_if_unset({})
    """Unclaimed tasks that are not on the list, and in no other count, since a task of another campaign for the same
    goes first, and its answer counts here, too: their number by the name of that campaign; left out if there are
    none."""
    claimed: int
    """Tasks that a person has claimed and not answered in full."""
    in_review: int
    """Tasks that are answered and wait for a review."""
    answered: int
    """Tasks that were answered."""
    overdue: int
    """Open tasks whose deadline has passed."""


def elsewhere_text(campaign: str, n: int) -> str:
    """Returns a text on the n measurements that are on the list of another campaign, to stand after the one whose
    measurements they are."""
    are = "is" if n == 1 else "are"
    return f"{n} of its measurements {are} on the list of campaign {campaign}"


class HitCounts(NamedTuple):
    """The number of hits of a campaign, and the number of different compounds among them."""

    hits: int
    """Number of candidates that are hits."""
    distinct: int
    """Number of different standard InChIKeys of hits, which tautomers share; a hit without one counts by itself."""

    def __str__(self) -> str:
        """Returns `5 hits`, or `5 hits, 4 distinct` where the two numbers differ."""
        return self.text(f"{self.hits} hit{'' if self.hits == 1 else 's'}")

    def text(self, hits: str) -> str:
        """Returns the number of hits as it is given, with the number of compounds where the two differ."""
        return hits if self.hits == self.distinct else f"{hits}, {self.distinct} distinct"


class LetThrough(AnswerModel):
    """Candidates that a filter let through."""

    candidates: int
    """Number of candidates."""
    answered: int
    """Number of those that the deciding rung has answered."""
    hits: int
    """Number of hits among them."""


class FilterCounts(AnswerModel):
    """The candidates that the filters of a campaign let through; what was proposed before a law knew enough is not
    among them."""

    chosen: LetThrough
    """Those that went on for their chance."""
    audited: LetThrough
    """Those that went on by lot, whatever their chance: the audit of the filter."""


class CampaignCounts(AnswerModel):
    """The counts of a campaign; the query is cheap enough to run every second."""

    campaign: str
    """Name of the campaign."""
    state: CampaignState
    """State of the campaign; `driver` shows whether a process runs it."""
    stop_reason: str | None
    """Reason why the campaign ended or was interrupted."""
    amended: bool = False
    """Whether the campaign was amended after it ended, so that it can go on."""
    trouble: str | None
    """Reason why no dispatcher starts it, or why its jobs cannot run; null without a problem."""
    notes: tuple[str, ...] = ()
    """Remarks: protonation states that are ambiguous or were not found; the first texts that could not be read, with
    the reason."""
    spent: Mapping[str, float]
    """Amount spent by resource; `core_seconds` and `wall_minutes` are always present."""
    driver_core_seconds: float = 0.0
    """Computing time of the campaign's drivers themselves, such as for the scheduler's law, in core-seconds. No budget
    holds it."""
    budget: Mapping[str, int | float | Mapping[str, int] | None]
    """Limits of the whole campaign; `rungs` holds the runs by rung."""
    proposals: int
    """Number of proposed texts, without those that a filter dropped."""
    unreadable: int
    """Number of proposals that could not be read as a structure."""
    filtered: int = omitted_if_unset(0)
    """Number of proposals that the law of a filter dropped and nobody sent on; left out if there are none."""
    filter: FilterCounts | None = omitted_if_unset(None)
    """The candidates that the filters let through; left out for a campaign without a filter."""
    candidates: int
    """Number of different structures."""
    hits: int
    """Number of candidates that meet every objective."""
    distinct_hits: int
    """Number of different compounds among the hits, by standard InChIKey, which tautomers share; `goal.count` counts
    them. A hit without InChIKey counts by itself."""
    hits_defined: bool = True
    """Whether an objective has limits, which define hits."""
    hits_by_tier: Mapping[str, int]
    """Number of hits by the tier of the rung that decided."""
    reused: int
    """Number of answers taken from earlier evidence at no cost."""
    held: int
    """Number of candidates that a person holds."""
    vetoed: int
    """Number of candidates that a person vetoed."""
    waiting: int = 0
    """Number of candidates that wait for a rung or run at one."""
    driver: DriverState | None
    """Driver of the campaign; null if it has no driver and its last driver ended properly."""
    control: ControlCounts | None = omitted_if_unset(None)
    """Runs of the control; left out if the campaign has none."""
    tasks: LabCounts | None = omitted_if_unset(None)
    """Tasks of people; left out if they do no rung."""
    rungs: tuple[RungCounts, ...]
    """Counts, one entry per rung, in ladder order."""
    rates: Mapping[str, RateUse] = omitted_if_unset({})
    """Limits on the spending in any seven days, by resource; left out where the budget has none."""
    progress: tuple[JobProgress, ...] = omitted_if_unset(())
    """Running jobs that report progress, longest running first, at most 20; left out if there are none."""

    @property
    def hit_counts(self) -> HitCounts:
        """The number of hits and of compounds among them."""
        return HitCounts(self.hits, self.distinct_hits)


class EstimateWithInterval(AnswerModel):
    """An estimate and its 95 % interval."""

    low: float
    """Lower end of the 95 % interval."""
    estimate: float
    """Best estimate."""
    high: float
    """Upper end of the 95 % interval."""


class GuardState(AnswerModel):
    """The state of the conformal guard, which finds the chance of a hit below which candidates could be dropped."""

    threshold: float | None
    """Chance of a hit below which candidates could be dropped; null where the guard is not armed."""
    missing: int
    """Number of further verified hits that would arm the guard."""
    words: str
    """The state of the guard as a sentence."""


class RungAgreement(AnswerModel):
    """The agreement of a rung with a higher rung that measures the same property."""

    property: str
    """The property that both rungs measure."""
    lower: str
    """Label of the lower rung."""
    upper: str
    """Label of the higher rung."""
    n: int
    """Number of candidates that both rungs answered."""
    effective: float
    """Effective sample size (Kish): number of equally weighted candidates that would give as much information."""
    bias: float | None
    """Mean of lower minus upper, in `unit`; null where the scale belongs to the method."""
    rmse: float | None
    """Root mean square of lower minus upper, in `unit`; null where the scale belongs to the method."""
    unit: str | None = None
    """Unit of `bias` and `rmse`: the one that the campaign chose, if a factor converts it; null without them."""
    spearman: float | None
    """Rank correlation; null below three candidates or where a rung is constant."""


class AuditReport(AnswerModel):
    """An estimate of the hits that the scheduler missed, from the audited candidates."""

    share: float
    """Share of the spending that goes into the audit, between 0 and 1."""
    passed_over: int
    """Number of candidates that the law passed over."""
    jobs: int
    """Number of jobs that the audit has started."""
    audited: int
    """Number of drawn candidates that are verified."""
    at_work: int
    """Number of drawn candidates whose job is running or queued."""
    waiting: int
    """Number of drawn candidates that wait for a job."""
    hits: int
    """Number of hits among the audited candidates."""
    open: int
    """Number of candidates that were neither passed over nor decided; the estimates leave them out."""
    recall: EstimateWithInterval | None
    """Share of all hits that were found by the scheduler's own choices."""
    with_audit: EstimateWithInterval | None
    """Share of all hits that were found by the scheduler's own choices or by the audit."""
    missed: EstimateWithInterval | None
    """Number of hits among the passed-over candidates that are not verified."""
    words: str
    """The estimate as a sentence, or the reason why there is none."""
    guard: GuardState
    """The state of the conformal guard."""
    rungs: tuple[RungAgreement, ...]
    """Agreement of each rung with the next that measures the same property, and with the terminal rung."""


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
    filtered: int
    """Number of proposals that the law of a filter dropped; they are not among `proposals`."""
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


class ListedCampaign(AnswerModel):
    """A campaign in the list of all."""

    campaign: str
    """Name of the campaign."""
    state: CampaignState
    """State of the campaign."""
    subject: str
    """`molecule` or `crystal`."""
    created_at: datetime
    """Time (UTC) at which the campaign was made."""
    updated_at: datetime
    """Time (UTC) of its last change."""


class CampaignList(AnswerModel):
    """A page of the list of campaigns."""

    campaigns: tuple[ListedCampaign, ...]
    """The campaigns, the newest first."""
    next: str | None
    """Path of the next page; null on the last page."""


class RungPair(AnswerModel):
    """A rung of each of the two ladders, compared with each other."""

    rungs: tuple[str | None, str | None]
    """Labels of the rungs; null where a ladder has no such rung."""
    same_calculation: bool
    """Whether verifier, version and settings are the same."""
    counts: tuple[RungCounts | None, RungCounts | None]
    """Outcomes of the candidates at each rung."""


class SharedCandidates(AnswerModel):
    """Candidates and hits that both campaigns have."""

    both: int
    """Number of candidates that both campaigns have."""
    hits_of_both: int
    """Number of candidates that are hits of both campaigns."""
    hits_of_first_known_to_second: int
    """Number of hits of the first campaign that are candidates of the second."""
    hits_of_second_known_to_first: int
    """Number of hits of the second campaign that are candidates of the first."""
    shared_hits: tuple[CandidateName, ...]
    """The first few candidates that are hits of both campaigns."""


class ValueSpread(AnswerModel):
    """Statistics of the values of a property that a rung measured at one level, over a campaign's candidates."""

    level: str
    """Level of theory, or the experimental method."""
    unit: str
    """The unit that the second campaign states; else the property's canonical unit."""
    n: int
    """Number of values."""
    low: float
    """Lowest value, in `unit`."""
    mean: float
    """Mean value, in `unit`."""
    high: float
    """Highest value, in `unit`."""


class ValueComparison(AnswerModel):
    """An objective's property as the deciding rung of each campaign measured it."""

    property: str
    """Name of the property."""
    rungs: tuple[str, str]
    """Labels of the deciding rungs."""
    comparable: bool
    """Whether both rungs run the same calculation, so that their values may be compared."""
    measured: tuple[tuple[ValueSpread, ...], tuple[ValueSpread, ...]]
    """Values of each campaign, one entry per level."""


class HitsAtCost(AnswerModel):
    """Hits of both campaigns at equal cost."""

    core_seconds: float | None
    """Cost in core-seconds; null stands for everything that each campaign has spent."""
    hits: tuple[int, int]
    """Number of hits of each campaign at that cost."""


class Comparison(AnswerModel):
    """The comparison of two campaigns of a ledger."""

    campaigns: tuple[str, str]
    """Names of the campaigns."""
    differences: tuple[str, ...]
    """Differences between the campaign files, one entry per key."""
    status: tuple[CampaignCounts, CampaignCounts]
    """Counts of each campaign."""
    rungs: tuple[RungPair, ...]
    """The ladders, rung by rung."""
    overlap: SharedCandidates
    """Candidates and hits that both campaigns have."""
    values: tuple[ValueComparison, ...]
    """Measured values of the objectives that both campaigns have."""
    hits_against_cost: tuple[HitsAtCost, ...]
    """Hits at equal cost, up to what the cheaper campaign spent."""
    cost_of_first_hit: tuple[float | None, float | None]
    """Core-seconds until the first hit of each campaign; null without a hit."""
    same_objectives: bool
    """Whether both campaigns define a hit in the same way."""
