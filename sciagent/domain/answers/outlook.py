"""The outlook of an open candidate in a `priced` campaign: its expected payoff and cost by the last law."""

from __future__ import annotations

from collections.abc import Mapping

from sciagent.domain.answers.model import AnswerModel


class PropertyForecast(AnswerModel):
    """A forecast of a property that is not yet known, at the rung that decides on it."""

    property: str
    """Name of the property."""
    rung: str
    """Label of the rung that decides."""
    value: float
    """Expected value, in `unit`."""
    low: float
    """Lower end of the 90 % interval, in `unit`."""
    high: float
    """Upper end of the 90 % interval, in `unit`."""
    unit: str
    """The property's canonical unit."""


class OutlookUnits(AnswerModel):
    """The unit of each number."""

    value: str
    """`hits` or `utility`."""
    p_hit: str
    """Always `probability`."""
    expected: str
    """`hits` or `utility`."""
    index: str
    """Hits or utility per budget, or per core-second where nothing is limited."""
    price: str
    """The unit of the index."""
    next_cost: Mapping[str, str]
    """Unit of each resource."""
    next_share: str
    """Always `of the whole budget`."""
    later: str
    """Always `expected runs`."""


class Outlook(AnswerModel):
    """The outlook of a waiting candidate; only `text` is set where no forecast is possible."""

    value: float | None = None
    """Expected payoff minus the price of the rungs that would still be bought, in hits or utility."""
    p_hit: float | None = None
    """Chance of a hit; null where the goal is not to count hits."""
    expected: float | None = None
    """Expected payoff if it were verified now, in hits or utility."""
    foretold: tuple[PropertyForecast, ...] | None = None
    """Forecasts, one entry per objective whose property is not yet known."""
    index: float | None = None
    """Hits or utility that a whole budget would bring if it were spent at this candidate's rate."""
    price: float | None = None
    """Hits or utility that the budget brings elsewhere, in the unit of the index."""
    ahead: int | None = None
    """Number of open candidates with a higher index; null where too many are open to compare."""
    next_rung: str | None = None
    """The rung that the candidate would get next."""
    next_cost: Mapping[str, float] | None = None
    """Cost of the next rung, by resource."""
    next_share: float | None = None
    """Share of the whole budget that the next rung takes; null where nothing is limited."""
    later: Mapping[str, float] | None = None
    """Expected number of runs of each rung after the next."""
    law_version: str | None = None
    """Version of the law."""
    law_watermark: int | None = None
    """Sequence number of the last evidence that the law was fitted to."""
    watermark: int | None = None
    """Sequence number of the last evidence that was counted."""
    units: OutlookUnits | None = None
    """The unit of each number."""
    text: str
    """The outlook in words, or why no forecast is possible."""
