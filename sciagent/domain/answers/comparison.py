"""Two campaigns side by side."""

from __future__ import annotations

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.answers.status import CampaignCounts, RungCounts
from sciagent.domain.answers.values import CandidateName


class RungPair(AnswerModel):
    """Rungs of the two ladders that stand side by side."""

    rungs: tuple[str | None, str | None]
    """Their labels; null where a ladder has no such rung."""
    same_calculation: bool
    """Whether verifier, version and settings are the same."""
    counts: tuple[RungCounts | None, RungCounts | None]
    """What became of the candidates at each."""


class SharedCandidates(AnswerModel):
    """Candidates and hits that both campaigns have."""

    both: int
    """Candidates that both have."""
    hits_of_both: int
    """Candidates that are hits of both."""
    hits_of_first_known_to_second: int
    """Hits of the first that are candidates of the second."""
    hits_of_second_known_to_first: int
    """Hits of the second that are candidates of the first."""
    shared_hits: tuple[CandidateName, ...]
    """The first hits of both."""


class ValueSpread(AnswerModel):
    """Values of a property that a rung measured on a campaign's candidates, at the same level."""

    level: str
    """Level of theory, or the experimental method."""
    unit: str
    """The property's canonical unit."""
    n: int
    """Number of values."""
    low: float
    """The lowest, in `unit`."""
    mean: float
    """Their mean, in `unit`."""
    high: float
    """The highest, in `unit`."""


class ValueComparison(AnswerModel):
    """An objective's property as the deciding rung of each campaign measured it."""

    property: str
    """Name of the property."""
    rungs: tuple[str, str]
    """Labels of the deciding rungs."""
    comparable: bool
    """Whether both are the same calculation, so that numbers may be compared."""
    measured: tuple[tuple[ValueSpread, ...], tuple[ValueSpread, ...]]
    """The values of each campaign, an entry a level."""


class HitsAtCost(AnswerModel):
    """Hits of both campaigns at equal cost."""

    core_seconds: float | None
    """The cost; null for all that each has spent."""
    hits: tuple[int, int]
    """Hits of each campaign."""


class Comparison(AnswerModel):
    """Two campaigns of a ledger side by side."""

    campaigns: tuple[str, str]
    """Their names."""
    differences: tuple[str, ...]
    """What differs in what was asked, an entry a key."""
    status: tuple[CampaignCounts, CampaignCounts]
    """How each stands."""
    rungs: tuple[RungPair, ...]
    """The ladders, rung by rung."""
    overlap: SharedCandidates
    """What both have."""
    values: tuple[ValueComparison, ...]
    """Objectives that both have."""
    hits_against_cost: tuple[HitsAtCost, ...]
    """Hits at equal cost, up to what the cheaper campaign spent."""
    cost_of_first_hit: tuple[float | None, float | None]
    """Core-seconds until the first hit; null where there is none."""
    same_objectives: bool
    """Whether a hit of either is a hit of the other."""
