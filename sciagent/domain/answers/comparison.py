"""The comparison of two campaigns."""

from __future__ import annotations

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.answers.status import CampaignCounts, RungCounts
from sciagent.domain.answers.values import CandidateName


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
