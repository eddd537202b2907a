"""The budget while a campaign runs: what is spent, reserved and left, by resource, by rung and on the clock."""

from __future__ import annotations

import time
from collections.abc import Mapping

from sqlalchemy.engine import Connection

from sciagent.campaign.build import Built
from sciagent.domain.cost import Cost
from sciagent.store import jobs, queries


class Purse:
    """Read from the ledger once, then kept in step with what this driver writes there."""

    def __init__(self, built: Built, connection: Connection) -> None:
        self._wall_before = built.row.wall_seconds
        self._began = time.monotonic()
        self.refresh(built, connection)

    def refresh(self, built: Built, connection: Connection) -> None:
        """Read it all again: somebody else has written there, or amended the limits. The clock goes on."""
        campaign_id = built.row.id
        self._limits = dict(built.spec.budget.resources())
        self._spent = queries.spent(connection, campaign_id)
        self._reserved = jobs.reserved(connection, campaign_id)
        by_id = queries.jobs_by_rung(connection, campaign_id)
        self._jobs = {r.rules.position: by_id.get(r.id, 0) for r in built.rungs}
        reused = queries.reuses_by_rung(connection, campaign_id)
        self._reused = {r.rules.position: reused.get(r.id, 0) for r in built.paid}
        self._jobs_limit = built.limit_by_rung
        self._wall_limit = built.spec.budget.wall_minutes

    def rest(self, seconds: float) -> None:
        """Time in which nothing was to be done does not count."""
        self._began += seconds

    def remaining_jobs(self, position: int) -> int | None:
        """How many more jobs the rung may start; None without a limit by count."""
        if position not in self._jobs_limit:
            return None
        return max(0, self._jobs_limit[position] - self._jobs[position])

    def started(self, position: int) -> int:
        """How many candidates the rung was started on, or answered from what was known."""
        return self._jobs[position] + self._reused.get(position, 0)

    def reuse(self, position: int) -> None:
        self._reused[position] += 1

    def fits(self, reservation: Cost) -> bool:
        """Whether spent + reserved + this stays within every limit, and a job of that length within the wall time."""
        if self._wall_limit is not None:
            seconds = reservation.get("core_seconds", 0.0)  # engines run on one thread: about as long on the clock
            if self._minutes() + seconds / 60 > self._wall_limit:
                return False
        return all(
            self._spent.get(r, 0.0) + self._reserved.get(r, 0.0) + reservation.get(r, 0.0) <= limit
            for r, limit in self._limits.items()
        )

    def reserve(self, position: int, reservation: Cost) -> None:
        self._jobs[position] += 1
        for r, amount in reservation.items():
            self._reserved[r] = self._reserved.get(r, 0.0) + amount

    def release(self, reservation: Mapping[str, float]) -> None:
        for r, amount in reservation.items():
            self._reserved[r] = max(0.0, self._reserved.get(r, 0.0) - amount)

    def spend(self, cost: Mapping[str, float]) -> None:
        for r, amount in cost.items():
            self._spent[r] = self._spent.get(r, 0.0) + amount

    def limits(self) -> dict[str, float]:
        """Every limit, by resource, by `rung 3` for jobs of the rung at position 3, and `wall_seconds`."""
        found = dict(self._limits) | {f"rung {position}": float(n) for position, n in self._jobs_limit.items()}
        return found | ({} if self._wall_limit is None else {"wall_seconds": 60 * self._wall_limit})

    def used(self) -> dict[str, float]:
        """Spent or spoken for, by the same names."""
        found = {r: self._spent.get(r, 0.0) + self._reserved.get(r, 0.0) for r in self._limits}
        found |= {f"rung {position}": float(self._jobs[position]) for position in self._jobs_limit}
        return found | ({} if self._wall_limit is None else {"wall_seconds": 60 * self._minutes()})

    def _minutes(self) -> float:
        return (self._wall_before + time.monotonic() - self._began) / 60

    def exhausted(self) -> str | None:
        """Which limit leaves nothing at all, in words; None while there is something left."""
        if self._wall_limit is not None and self._minutes() >= self._wall_limit:
            return f"wall time: {self._minutes():.1f} of {self._wall_limit:g} minutes"
        for r, limit in self._limits.items():
            if self._spent.get(r, 0.0) >= limit:
                return f"{r}: {self._spent.get(r, 0.0):.0f} of {limit:g}"
        return None
