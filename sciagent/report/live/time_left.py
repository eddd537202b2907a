"""The time for which the budget of a running campaign will last: a range from measured costs, or nothing."""

from __future__ import annotations

from collections.abc import Mapping

from sciagent.domain.answers.status import CampaignCounts, RungCounts
from sciagent.domain.durations import duration, range_of

LEAST_JOBS = 3  # finished jobs from which a pace can be told
MINUTE = 60.0


def time_left(status: CampaignCounts, workers: int) -> str | None:
    """Returns a text such as `budget left for 4 to 11 min`; None where nothing is known yet.

    workers: jobs at once. A limit lasts at least as long as all workers need if they did nothing else from now on, at
    the mean cost of its jobs so far. It lasts at most as long as at the pace since the start, when cheap rungs came
    first. The campaign ends at the first limit; a goal that is reached ends it sooner.
    """
    ranges = [span for span in (_core_seconds(status, workers), _runs(status, workers)) if span is not None]
    clock = _limit(status, "wall_minutes")
    rest = None if clock is None else max(0.0, clock - status.spent.get("wall_minutes", 0.0)) * MINUTE
    if not ranges:
        return None if rest is None else f"budget left for at most {duration(rest)}"
    low, high = (min(ends) for ends in zip(*ranges, strict=True))
    if rest is not None:
        low, high = min(low, rest), min(high, rest)
    return f"budget left for {range_of(low, high)}"


def _core_seconds(status: CampaignCounts, workers: int) -> tuple[float, float] | None:
    limit, used = _limit(status, "core_seconds"), status.spent.get("core_seconds", 0.0)
    elapsed = status.spent.get("wall_minutes", 0.0) * MINUTE
    if limit is None or used <= 0 or elapsed <= 0 or sum(map(_ended, status.rungs)) < LEAST_JOBS:
        return None
    return _ordered((limit - used) / workers, (limit - used) * elapsed / used)


def _runs(status: CampaignCounts, workers: int) -> tuple[float, float] | None:
    """Returns the range of the last rung with a limit on its runs."""
    limits = status.budget.get("rungs")
    elapsed = status.spent.get("wall_minutes", 0.0) * MINUTE
    limited = [rung for rung in status.rungs if isinstance(limits, Mapping) and rung.rung in limits]
    if not limited or not isinstance(limits, Mapping) or elapsed <= 0:
        return None
    rung = limited[-1]
    ended = _ended(rung)
    if ended < LEAST_JOBS:
        return None
    left = limits[rung.rung] - ended
    return _ordered(left * rung.core_seconds / ended / workers, left * elapsed / ended)


def _ended(rung: RungCounts) -> int:
    return max(0, rung.jobs - rung.running)


def _limit(status: CampaignCounts, name: str) -> float | None:
    limit = status.budget.get(name)
    return float(limit) if isinstance(limit, int | float) else None


def _ordered(a: float, b: float) -> tuple[float, float]:
    return max(0.0, min(a, b)), max(0.0, a, b)
