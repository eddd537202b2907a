"""How good a prediction with an error was, once the answer is there."""

from __future__ import annotations

import math


def crps(value: float, error: float, answer: float) -> float:
    """Continuous ranked probability score of N(value, error²) at the answer, in its unit; 0 is best. error: standard
    deviation; at 0 the score is the distance. It cannot be bettered by saying anything but what one believes.

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
