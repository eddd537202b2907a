"""The plan of a campaign: what its budget is likely to buy, estimated before its start."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from sciagent.domain.answers.candidate_and_value_answers import AnswerModel


class PlanGoal(AnswerModel):
    """The goal of the campaign."""

    kind: str
    """`hits`, `best` or `graded`."""
    count: int | None
    """Number that the goal asks for; null without a limit."""


class PlanSample(AnswerModel):
    """The sample of molecules for which the rungs state their cost."""

    molecules: int
    """Number of molecules in the sample."""
    source: str = Field(serialization_alias="from")
    """Name of the file that the molecules come from."""
    read: int
    """Number of entries of the file that were read."""
    through_fast_rungs: bool
    """Whether all fast rungs were run on the entries."""
    passed: float
    """Share of the entries that are readable and pass the fast rungs."""


class PlanLimit(AnswerModel):
    """A limit of the budget."""

    name: str
    """Name of the limit in the campaign file."""
    limit: float
    """Amount of the limit, in `unit`."""
    unit: str
    """Unit of the limit; `runs` for jobs of a rung."""


class RunCost(AnswerModel):
    """The cost of a run of a rung in one resource, over the sample."""

    median: float
    """Median cost, in `unit`."""
    p90: float
    """90th percentile of the cost, in `unit`."""
    unit: str
    """Unit of the resource."""


class RungTells(AnswerModel):
    """The correlation of a rung's answer with the property of an objective."""

    property: str
    """The property that the objective asks for."""
    low: float
    """Low end of the correlation."""
    middle: float
    """Middle of the correlation."""
    high: float
    """High end of the correlation."""
    kind: str
    """`learnt`, `declared`, `elsewhere`, `unknown`, `other`, `decides` or `nothing`."""
    why: str
    """Source of the correlation."""


class RungGain(AnswerModel):
    """Expected hits with a rung minus expected hits without it, at a given share of hits."""

    hit_rate: float
    """Share of the candidates that are hits."""
    low: float | None
    """Gain at the low end of the rung's correlation; null where the rung cannot be left out."""
    middle: float | None
    """Gain at the middle of the rung's correlation."""
    high: float | None
    """Gain at the high end of the rung's correlation."""


class PlannedRung(AnswerModel):
    """A paid rung: its cost, its correlations and its expected gain."""

    rung: str
    """Label of the rung."""
    verifier: str
    """Name of its verifier."""
    tier: str
    """Tier of its verifier."""
    is_terminal: bool
    """Whether it is the terminal rung."""
    costs: Mapping[str, RunCost]
    """Cost of a run, by resource."""
    cost_is: str
    """`declared` by the verifier, or `learnt` from the ledger."""
    cost_ratio: float | None
    """Learnt cost divided by declared cost; null where no cost is learnt."""
    refuses: int
    """Number of molecules of the sample that the rung refuses."""
    too_long: int
    """Number of molecules of the sample whose expected run is longer than `wall_seconds`."""
    wall_seconds: float | None
    """Limit of the wall time of a run, in seconds; null for the work of people."""
    tells: tuple[RungTells, ...]
    """Correlations, one entry per objective; empty for the terminal rung."""
    delta: tuple[RungGain, ...]
    """Expected gain, one entry per assumed share of hits; empty for the terminal rung."""
    verdict: str | None
    """`pays for itself`, `looks worthless`, `is needed` or `cannot be said`; null for the terminal rung."""


class ExpectedHits(AnswerModel):
    """Expected hits over the range of the rungs' correlations."""

    low: float | None
    """Hits with every correlation at its low end; null where the spending is not limited."""
    middle: float | None
    """Hits with every correlation at its middle."""
    high: float | None
    """Hits with every correlation at its high end."""


class PlanCase(AnswerModel):
    """The results that the budget buys at one assumed share of hits."""

    hit_rate: float
    """Share of the candidates that are hits."""
    hits: ExpectedHits
    """Expected hits."""
    terminal_alone: float | None
    """Expected hits with the terminal rung alone."""
    runs: Mapping[str, float] | None
    """Expected number of runs by rung; null where the spending is not limited."""
    used: Mapping[str, float]
    """Amount used of each limit, in the limit's unit."""
    price: Mapping[str, float]
    """Number of hits that one more unit of each limit would bring."""
    hit_rate_is: str
    """`assumed`, or `learnt` from an earlier law."""


class Plan(AnswerModel):
    """The plan of a campaign: what its budget is likely to buy, with ranges."""

    campaign: str
    """Name of the campaign."""
    scheduler: str
    """The scheduler that the campaign file names; the plan always assumes `priced`."""
    goal: PlanGoal
    """The goal of the campaign."""
    candidates: float | None
    """Expected number of candidates that pass the fast rungs; null where it is not limited."""
    sample: PlanSample
    """The sample of molecules for which the rungs state their cost."""
    limits: tuple[PlanLimit, ...]
    """Limits of the budget."""
    first: float
    """Number of candidates that climb the whole ladder first, so that the law can learn from them."""
    rungs: tuple[PlannedRung, ...]
    """Paid rungs, the terminal rung last."""
    cases: tuple[PlanCase, ...]
    """Cases, one entry per assumed share of hits."""
    learnt_from: str | None
    """Name of the campaign whose law was used; null without one."""
    calibrations: tuple[str, ...] = ()
    """Calibrations on measured values with their leave-one-out error, as sentences."""
    assumptions: tuple[str, ...] = ()
    """Assumptions, as sentences."""
    sentences: tuple[str, ...] = ()
    """Conclusions, as sentences."""
