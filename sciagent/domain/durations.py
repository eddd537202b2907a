"""Lengths of time as short texts: `42 s`, `3 min`, `5 h`, `2 d`."""

from __future__ import annotations

from datetime import datetime

UNITS = ((172_800, 86_400, "d"), (7200, 3600, "h"), (120, 60, "min"), (0, 1, "s"))
"""(least seconds, size in seconds, unit), longest first."""


def duration(seconds: float) -> str:
    """Returns a length of time in its unit."""
    size, unit = _unit(seconds)
    return f"{seconds / size:.0f} {unit}"


def range_of(low: float, high: float) -> str:
    """Returns a range of times in seconds, such as `4 to 11 min`; a single time if both ends read the same."""
    first, last = duration(low), duration(high)
    if first == last:
        return f"about {last}"
    same_unit = _unit(low) == _unit(high)
    return f"{first.split()[0] if same_unit else first} to {last}"


def ago(now: datetime, then: datetime | None) -> str:
    """Returns the elapsed time."""
    return duration(max(0.0, (now - then).total_seconds()) if then is not None else 0.0)


def _unit(seconds: float) -> tuple[int, str]:
    return next((size, unit) for least, size, unit in UNITS if seconds >= least)
