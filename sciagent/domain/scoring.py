"""How good a prediction with an error was, once the answer is there."""

from __future__ import annotations

import math
from typing import Any

COVERS_90 = 1.6448536269514722  # standard deviations to either side that hold nine tenths of a normal distribution


def read(predicted: Any) -> dict[str, tuple[float, float]]:
    """Value and error by property, of what stands with a proposal; what is no prediction is left out."""
    predictions = {}
    for name, stated in predicted.items() if isinstance(predicted, dict) else ():
        if isinstance(stated, dict):
            numbers = [float(x) for x in (stated.get("value"), stated.get("error")) if isinstance(x, int | float)]
            if len(numbers) == 2 and all(map(math.isfinite, numbers)) and numbers[1] >= 0:
                predictions[str(name)] = numbers[0], numbers[1]
    return predictions


def crps(value: float, error: float, answer: float) -> float:
    """Continuous ranked probability score of N(value, error²) at the answer, in its unit; 0 is best. error: standard
    deviation; at 0 the score is the distance. No prediction but the one believed in scores better on average.

    Gneiting and Raftery, J. Am. Stat. Assoc. 102, 359 (2007), equation 21. Raises ValueError for an error below 0 or
    numbers that are not finite.
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
