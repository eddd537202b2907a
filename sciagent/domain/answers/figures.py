"""Figures as data: the series of a chart with names, units, source and time.

The report, the page of a campaign, notebooks and `sciagent report --json` show the same figures. Amounts are in the
unit of the ledger; whoever draws them may choose a larger unit of time.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import model_validator

from sciagent.domain.answers.candidate_and_value_answers import AnswerModel


class FigureAxis(AnswerModel):
    """The quantity on an axis."""

    name: str
    """`hits`, `utility`, `time`, or the name of a resource, such as `money`."""
    words: str
    """The same in words, such as `money booked`."""
    unit: str
    """Unit of the numbers, such as `EUR`, `h` or `core-seconds`; `1` for a plain number."""


class FigureSeries(AnswerModel):
    """One line of a figure. Its value holds from each point to the next."""

    name: str
    """Name of the line: the campaign, a proposer or a rung."""
    x: tuple[float, ...]
    """Places on the x axis, in its unit, in rising order."""
    y: tuple[float, ...]
    """Values at these places, in the unit of the y axis."""

    @model_validator(mode="after")
    def _check_lengths(self) -> FigureSeries:
        if len(self.x) != len(self.y):
            raise ValueError(f"the series {self.name} has {len(self.x)} places and {len(self.y)} values")
        return self


class Figure(AnswerModel):
    """A chart as data."""

    name: str
    """Name of the figure, such as `hits_against_money`."""
    title: str
    """The title, such as `Hits against money`."""
    shape: Literal["steps", "stacked"]
    """`steps`: each line by itself; `stacked`: the lines add up to the total."""
    x_axis: FigureAxis
    """The quantity on the x axis."""
    y_axis: FigureAxis
    """The quantity on the y axis."""
    series: tuple[FigureSeries, ...]
    """The lines."""
    rung: str | None
    """The rung whose answers decide what is counted; null where every rung counts."""
    as_of: datetime
    """Time at which the ledger was read (UTC)."""
    notes: tuple[str, ...]
    """Sentences on what is counted, and how."""


class FigureList(AnswerModel):
    """The figures of a campaign: the answer of `sciagent report --json`."""

    campaign: str
    """Name of the campaign."""
    figures: tuple[Figure, ...]
    """The figures that have something to show: first hits or utility, then spending."""
