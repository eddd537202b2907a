"""What an open candidate of a priced campaign promises, by the campaign's last law."""

from __future__ import annotations

from collections.abc import Mapping

from sciagent.domain.answers.model import AnswerModel


class PropertyForecast(AnswerModel):
    """What the rung that decides would say of a property that is not yet known."""

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
    """Hits or utility a budget, or a core-second where nothing is limited."""
    price: str
    """That of the index."""
    next_cost: Mapping[str, str]
    """By resource."""
    next_share: str
    """Always `of the whole budget`."""
    later: str
    """Always `expected runs`."""


class Outlook(AnswerModel):
    """What a waiting candidate promises; only `text` is there where nothing can be foretold."""

    value: float | None = None
    """Expected payoff less the price of what would still be bought, in hits or utility."""
    p_hit: float | None = None
    """Chance of a hit; null where the goal is not to count hits."""
    expected: float | None = None
    """Expected payoff if it were verified now, in hits or utility."""
    foretold: tuple[PropertyForecast, ...] | None = None
    """One entry an objective that is not yet known."""
    index: float | None = None
    """Hits or utility that a whole budget spent like this would bring."""
    price: float | None = None
    """What the budget brings elsewhere, in the unit of the index."""
    ahead: int | None = None
    """Open candidates with a higher index; null where too many are open to be compared."""
    next_rung: str | None = None
    """The rung that it would get next."""
    next_cost: Mapping[str, float] | None = None
    """What that would cost, by resource."""
    next_share: float | None = None
    """The share of the whole budget that this is; null where nothing is limited."""
    later: Mapping[str, float] | None = None
    """Expected runs of the rungs after that."""
    law_version: str | None = None
    """The law."""
    law_watermark: int | None = None
    """The last evidence that the law was fitted to."""
    watermark: int | None = None
    """The last evidence that was counted."""
    units: OutlookUnits | None = None
    """The unit of each number."""
    text: str
    """All of it in words, or why nothing can be foretold."""
