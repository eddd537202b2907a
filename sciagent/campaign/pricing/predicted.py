"""What the law foretells of a candidate: for each objective, what the rung that decides would say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.observations import ObservationSchema
from sciagent.domain.properties import properties
from sciagent.scheduling.law.interval import foretell
from sciagent.scheduling.law.stack import Law
from sciagent.scheduling.law.transforms import TruthTransform


def foretold(
    built: Built,
    schema: ObservationSchema,
    laws: Sequence[Law],
    truths: Sequence[TruthTransform],
    scores: NDArray[np.float64],
    row: int,
) -> list[dict[str, Any]]:
    """As JSON: mean and 90 % interval, in the property's own unit. scores: (n, c) of the pool, row: of the candidate.
    What is known already is left out, for nobody has to foretell it."""
    found = []
    for question, (aim, truth) in enumerate(zip(schema.aims.aims, truths, strict=True)):
        if not math.isnan(scores[row, aim.columns[-1]]):
            continue
        decides = schema.columns[aim.columns[-1]]
        told = foretell(laws, question, np.array([row])).in_unit(truth)
        one = {"property": decides.property, "rung": built.rungs[decides.rung].spec.rung}
        ends = {"value": float(told.mean[0]), "low": float(told.low[0]), "high": float(told.high[0])}
        found.append(one | ends | {"unit": properties()[decides.property].unit})
    return found


def sentence(one: Mapping[str, Any]) -> str:
    """To two digits of half the interval's width: what comes after them says nothing."""
    places = 1 - math.floor(math.log10((one["high"] - one["low"]) / 2))
    value, low, high = (f"{round(one[name], places) + 0.0:.{max(places, 0)}f}" for name in ("value", "low", "high"))
    unit = "" if one["unit"] == "1" else f" {one['unit']}"
    said = f"{one['property']} = {value}{unit}, nine times in ten between {low} and {high}"
    return f"{one['rung']} is expected to say {said}."
