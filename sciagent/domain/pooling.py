"""Pooling of replicate measurements into a single value; no other module pools replicates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sciagent.domain.evidence import MOLECULE, Measured
from sciagent.domain.properties import Level
from sciagent.domain.quantities import Censoring, Quantity


def pooled_quantity(quantities: Sequence[Quantity]) -> Quantity:
    """Returns one quantity from replicates in the same unit.

    Exact values are pooled (see `pooled`). A bound beside them is left out unless their mean contradicts it; then it
    enters as a value at the bound. Bounds on one side alone give the tightest bound. Bounds on both sides give their
    middle, with the standard uncertainty of a uniform distribution between them. Raises ValueError without any."""
    if len(quantities) == 1:
        return quantities[0]
    exact, below, above = (
        [q for q in quantities if q.censoring is side] for side in (Censoring.NONE, Censoring.BELOW, Censoring.ABOVE)
    )
    n = sum(q.n for q in quantities)
    if not exact:
        return _pooled_bounds(below, above, n)
    mean, _ = pooled([q.value for q in exact], [q.uncertainty for q in exact])
    used = [*exact, *(q for q in below if q.value < mean), *(q for q in above if q.value > mean)]
    mean, error = pooled([q.value for q in used], [q.uncertainty for q in used])
    return Quantity(mean, exact[0].unit, error, n=n, uncertainty_kind=_pooled_kind(used, error))


def _pooled_kind(used: Sequence[Quantity], error: float | None) -> str | None:
    """Returns whose spread a pooled uncertainty is: that of the replicates where it exceeds the propagated one."""
    kinds = {q.uncertainty_kind for q in used}
    stated = [q.uncertainty for q in used if q.uncertainty]
    propagated = 1 / math.sqrt(sum(1 / u**2 for u in stated)) if len(stated) == len(used) else 0.0
    if error is not None and error > propagated * (1 + 1e-9):
        return MOLECULE
    return kinds.pop() if len(kinds) == 1 else None


def _pooled_bounds(below: Sequence[Quantity], above: Sequence[Quantity], n: int) -> Quantity:
    if not above:
        return replace(min(below, key=lambda q: q.value), n=n)
    if not below:
        return replace(max(above, key=lambda q: q.value), n=n)
    low, high = max(q.value for q in above), min(q.value for q in below)
    return Quantity((low + high) / 2, below[0].unit, abs(high - low) / math.sqrt(12), n=n)


def pooled_measured(replicates: Iterable[Sequence[Measured]]) -> tuple[Measured, ...]:
    """Returns one pooled value per property and level. replicates: measured values of each replicate."""
    alike: dict[tuple[str, Level], list[Measured]] = {}
    for values in replicates:
        for measured in values:
            alike.setdefault((measured.property, measured.level), []).append(measured)
    return tuple(replace(same[0], quantity=pooled_quantity([m.quantity for m in same])) for same in alike.values())


def pooled(values: Sequence[float], errors: Sequence[float | None]) -> tuple[float, float | None]:
    """Returns the mean and its standard uncertainty (None if unknown), in the unit of the values.

    If every value has a standard uncertainty, the mean is weighted by the inverse variances, and its uncertainty is the
    larger of the propagated one and that of the scatter (Birge, Phys. Rev. 40, 207 (1932)). Otherwise it is the plain
    mean with its standard error. Raises ValueError for no values."""
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
