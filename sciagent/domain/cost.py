"""Cost: a mapping from resource to amount, and the known resources."""

from __future__ import annotations

import math
from collections.abc import Mapping

RESOURCE_UNITS: dict[str, str] = {
    "core_seconds": "s",  # CPU time of the whole process tree
    "gpu_seconds": "s",
    "llm_tokens": "1",
    "money": "EUR",
    "lab_slots": "1",
    "person_hours": "h",
    "licences": "1",
}

MEASURED = frozenset({"core_seconds"})  # resources that the host measures for every verifier
MAX_AMOUNT = 1e12  # largest amount of any resource; as core-seconds, 30 000 years


class Cost(dict[str, float]):
    """A cost vector, which nobody changes. Amounts are finite and not negative; resources with amount 0 are dropped."""

    def __init__(self, amounts: Mapping[str, float] | None = None, /, **more: float) -> None:
        merged = {**amounts, **more} if amounts else more
        for resource, amount in merged.items():
            if resource not in RESOURCE_UNITS:
                raise ValueError(f"unknown resource {resource!r}; known: {', '.join(RESOURCE_UNITS)}")
            if not math.isfinite(amount) or amount < 0:
                raise ValueError(f"cost {resource} = {amount!r} is not a finite, non-negative number")
        ordered = sorted(merged.items()) if len(merged) > 1 else merged.items()
        super().__init__({resource: float(amount) for resource, amount in ordered if amount})

    def __add__(self, other: Mapping[str, float]) -> Cost:
        """Returns the sum by resource."""
        if not other:
            return self
        resources = {*self, *other}
        return Cost({resource: self.get(resource, 0.0) + other.get(resource, 0.0) for resource in resources})

    def __repr__(self) -> str:
        amounts = ", ".join(f"{resource}={amount:g}" for resource, amount in self.items())
        return f"Cost({amounts})"
