"""Scores a prediction (value and error) against the answer."""

from __future__ import annotations

import math
from typing import Any

COVERS_90 = 1.6448536269514722  # 90 % of a normal distribution lie within this many standard deviations of the mean


def read(predicted: Any) -> dict[str, tuple[float, float]]:
    """Returns (value, error) by property from the predictions of a proposal; invalid ones are left out."""
    predictions = {}
    for name, stated in predicted.items() if isinstance(predicted, dict) else ():
        if isinstance(stated, dict):
            numbers = [float(x) for x in (stated.get("value"), stated.get("error")) if isinstance(x, int | float)]
            if len(numbers) == 2 and all(map(math.isfinite, numbers)) and numbers[1] >= 0:
                predictions[str(name)] = numbers[0], numbers[1]
    return predictions


def crps(value: float, error: float, answer: float) -> float:
    """Returns the continuous ranked probability score of N(value, error²) at the answer, in its unit; 0 is best.

    error: standard deviation; at 0 the score is the distance. The score is proper: an honest prediction is best on
    average. Raises ValueError for an error below 0 or numbers that are not finite.
    Source: Gneiting and Raftery, J. Am. Stat. Assoc. 102, 359 (2007), equation 21.
    """
    if not all(map(math.isfinite, (value, error, answer))) or error < 0:
        raise ValueError(f"no score for {value} ± {error} at {answer}")
    if error == 0:
        return abs(answer - value)
    z = (answer - value) / error
    if not math.isfinite(z):
        return abs(answer - value)
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return error * (z * math.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))
