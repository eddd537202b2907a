"""Several measurements of one thing as one value."""

from __future__ import annotations

import math
from collections.abc import Sequence


def pooled(values: Sequence[float], errors: Sequence[float | None]) -> tuple[float, float | None]:
    """Mean and its standard uncertainty, in the unit of the values.

    Where every value has its own standard uncertainty, weighted by them, and the uncertainty is the larger of what they
    foretell and what the scatter shows (Birge, Phys. Rev. 40, 207 (1932)); else the plain mean and its standard error.
    None where nobody knows it. Raises ValueError for no values.
    """
    n = len(values)
    if not n:
        raise ValueError("nothing to pool")
    if n == 1:
        return values[0], errors[0]
    known = [e for e in errors if e]
    weights = [1 / e**2 for e in known] if len(known) == n else [1.0] * n
    total = sum(weights)
    mean = sum(w * v for w, v in zip(weights, values, strict=True)) / total
    scatter = math.sqrt(sum(w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True)) / ((n - 1) * total))
    return mean, max(scatter, 1 / math.sqrt(total)) if len(known) == n else scatter
