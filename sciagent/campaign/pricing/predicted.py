"""What the law foretells of a candidate: for each objective, what the rung that decides would say."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.observations import ObservationSchema
from sciagent.domain.answers.outlook import PropertyForecast
from sciagent.domain.properties import properties
from sciagent.scheduling.law.interval import foretell
from sciagent.scheduling.law.stack import Law
from sciagent.scheduling.law.transforms import TruthTransform


def forecasts(
    built: Built,
    schema: ObservationSchema,
    laws: Sequence[Law],
    truths: Sequence[TruthTransform],
    scores: NDArray[np.float64],
    row: int,
) -> tuple[PropertyForecast, ...]:
    """Mean and 90 % interval of each objective that is not yet known, in the property's own unit.

    scores: (n, c) of the pool. row: of the candidate.
    """
    found = []
    for question, (aim, truth) in enumerate(zip(schema.aims.aims, truths, strict=True)):
        if not math.isnan(scores[row, aim.columns[-1]]):
            continue
        decides = schema.columns[aim.columns[-1]]
        interval = foretell(laws, question, np.array([row])).in_unit(truth)
        found.append(
            PropertyForecast(
                property=decides.property,
                rung=built.rungs[decides.rung].spec.rung,
                value=float(interval.mean[0]),
                low=float(interval.low[0]),
                high=float(interval.high[0]),
                unit=properties()[decides.property].unit,
            )
        )
    return tuple(found)


def sentence(forecast: PropertyForecast) -> str:
    """To two digits of half the interval's width: what comes after them says nothing."""
    places = 1 - math.floor(math.log10((forecast.high - forecast.low) / 2))
    ends = (forecast.value, forecast.low, forecast.high)
    value, low, high = (f"{round(end, places) + 0.0:.{max(places, 0)}f}" for end in ends)
    unit = "" if forecast.unit == "1" else f" {forecast.unit}"
    text = f"{forecast.property} = {value}{unit}, nine times in ten between {low} and {high}"
    return f"{forecast.rung} is expected to say {text}."
