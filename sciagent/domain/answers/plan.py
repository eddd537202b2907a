"""What the budget of a campaign is likely to buy, before its start."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from sciagent.domain.answers.model import AnswerModel


class PlanGoal(AnswerModel):
    """What the campaign is for."""

    kind: str
    """`hits`, `best` or `graded`."""
    count: int | None
    """How many of them; null without a limit."""


class PlanSample(AnswerModel):
    """The molecules that the rungs were asked about."""

    molecules: int
    """How many of them were taken."""
    source: str = Field(serialization_alias="from")
    """Name of the file that they come from."""
    read: int
    """How many entries of the file were read."""
    through_fast_rungs: bool
    """Whether all fast rungs were asked."""
    passed: float
    """Share of the entries that can be read and that the fast rungs let through."""


class PlanLimit(AnswerModel):
    """A limit of the budget."""

    name: str
    """As in the campaign file."""
    limit: float
    """In `unit`."""
    unit: str
    """Unit of the limit; `runs` for jobs of a rung."""


class RunCost(AnswerModel):
    """What a run of a rung costs of a resource, over the sample."""

    median: float
    """In `unit`."""
    p90: float
    """90 % of the sample cost less, in `unit`."""
    unit: str
    """Unit of the resource."""


class RungTells(AnswerModel):
    """How a rung's answer correlates with the property of an objective."""

    property: str
    """The property that the objective asks for."""
    low: float
    """Low end of the correlation."""
    middle: float
    """Its middle."""
    high: float
    """Its high end."""
    kind: str
    """`learnt`, `declared`, `elsewhere`, `unknown`, `other`, `decides` or `nothing`."""
    why: str
    """Where that is known from."""


class RungGain(AnswerModel):
    """Expected hits with a rung less hits without it, at a given share of hits."""

    hit_rate: float
    """Share of the candidates that are hits."""
    low: float | None
    """At the low end of the rung's correlation; null where the rung cannot be left out."""
    middle: float | None
    """At the middle of the rung's correlation."""
    high: float | None
    """At the high end of the rung's correlation."""


class PlannedRung(AnswerModel):
    """A paid rung: what it costs, tells and is likely to bring."""

    rung: str
    """Label of the rung."""
    verifier: str
    """Name of its verifier."""
    tier: str
    """Tier of its verifier."""
    is_terminal: bool
    """Whether it is the rung that decides."""
    costs: Mapping[str, RunCost]
    """What a run costs, by resource."""
    cost_is: str
    """`declared` by the verifier, or `learnt` from the ledger."""
    cost_ratio: float | None
    """Learnt cost over declared cost; null where nothing is learnt."""
    refuses: int
    """Molecules of the sample that it refuses."""
    tells: tuple[RungTells, ...]
    """One entry an objective; none for the terminal rung."""
    delta: tuple[RungGain, ...]
    """What it brings, an entry a share of hits; none for the terminal rung."""
    verdict: str | None
    """`pays for itself`, `looks worthless`, `is needed` or `cannot be said`; null for the terminal rung."""


class ExpectedHits(AnswerModel):
    """Expected hits over the range of the rungs' correlations."""

    low: float | None
    """With every correlation at its low end; null where nothing limits what is bought."""
    middle: float | None
    """With every correlation at its middle."""
    high: float | None
    """With every correlation at its high end."""


class PlanCase(AnswerModel):
    """What the budget buys if this share of the candidates are hits."""

    hit_rate: float
    """Share of the candidates that are hits."""
    hits: ExpectedHits
    """Expected hits."""
    terminal_alone: float | None
    """Hits that the terminal rung alone would find."""
    runs: Mapping[str, float] | None
    """Expected runs by rung; null where nothing limits what is bought."""
    used: Mapping[str, float]
    """What is used of each limit, in its unit."""
    price: Mapping[str, float]
    """Hits that another unit of each limit would bring."""
    hit_rate_is: str
    """`assumed`, or `learnt` from an earlier law."""


class Plan(AnswerModel):
    """What the budget of a campaign is likely to buy, and how sure that is."""

    campaign: str
    """Name of the campaign."""
    scheduler: str
    """The scheduler that the file names; the plan is that of `priced`."""
    goal: PlanGoal
    """What the campaign is for."""
    candidates: float | None
    """Candidates that pass the fast rungs; null where nothing limits them."""
    sample: PlanSample
    """The molecules that the rungs were asked about."""
    limits: tuple[PlanLimit, ...]
    """The limits of the budget."""
    first: float
    """Candidates that go up the whole ladder, for the law to learn from."""
    rungs: tuple[PlannedRung, ...]
    """The paid rungs, the terminal rung last."""
    cases: tuple[PlanCase, ...]
    """One entry a share of hits."""
    learnt_from: str | None
    """The campaign whose law was used."""
    assumptions: tuple[str, ...] = ()
    """What was assumed, in words."""
    sentences: tuple[str, ...] = ()
    """What follows, in words."""
