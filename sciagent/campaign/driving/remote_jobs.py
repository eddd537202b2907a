"""Jobs of a campaign that workers elsewhere run: how many may be out, offered, and settled when they have ended."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.record import Settling, given_up, settle
from sciagent.campaign.driving.pace import Group, Pace
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Finding
from sciagent.domain.jobs.needs import text_of
from sciagent.domain.jobs.states import JobState, Standing
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.job_queue import offers, reservations, workers
from sciagent.store.job_queue.jobs import Offer
from sciagent.store.job_queue.offers import Ended, Out
from sciagent.store.job_queue.worker_resources import cannot, capacity

log = logging.getLogger(__name__)

# a job this long is not offered before a slot is free. For shorter ones the word that one is free, and the next job,
# would take too much of their time to go round
LONG_SECONDS = 10.0
ROOM_SECONDS = 2.0  # between looks for who works
NOBODY = 1  # slots that are reckoned with while nobody serves a queue: something waits when somebody comes


@dataclass(frozen=True)
class Offered:
    """A job that is out. declared, reservation: as for a ticket of the local pool."""

    out: Out
    position: Position
    declared: Cost | None
    reservation: Cost


class Rooms:
    """Hands out the places of one dispatch: so many more jobs of each rung may be out."""

    def __init__(self, room: Mapping[Position, int]) -> None:
        self._room = dict(room)
        self.offered: list[Offered] = []

    @property
    def open(self) -> frozenset[Position]:
        """Positions of the rungs that have a place."""
        return frozenset(position for position, n in self._room.items() if n > 0)

    @property
    def is_full(self) -> bool:
        return not self.open

    @property
    def has_free(self) -> bool:
        """Whether another job may be out."""
        return bool(self.open)

    @property
    def total(self) -> int:
        """The most jobs that could be offered now."""
        return max(self._room.values(), default=0)

    def find(self, position: Position, ample: bool) -> Group[Any] | None:
        """A place for a job of this rung; the budget's reservations hold whoever runs it."""
        if self._room.get(position, 0) <= 0:
            return None
        self._room[position] -= 1
        return Group(position, 1, False)


class Outside:
    """What this campaign has out. A driver that takes over finds it in the ledger."""

    def __init__(self, built: Built, connection: Connection) -> None:
        self._built = built
        self._positions = {r.id: r.rules.position for r in built.rungs}
        self._out: dict[int, Offered] = {}
        self._slots: dict[str, int] = {}
        self._most: dict[int, int] = {}  # jobs of each rung that could run at once
        self.unheld: dict[str, str] = {}
        self._looked = -ROOM_SECONDS
        found = offers.outstanding(connection, built.row.id)
        held = reservations.held(connection, built.row.id) if found else {}
        for one in found:
            position = self._positions[one.rung_id]
            self._out[one.job_id] = Offered(one, position, None, Cost(held.get(one.job_id)))

    @property
    def running(self) -> int:
        return len(self._out)

    def add(self, offered: Sequence[Offered]) -> None:
        """These are out since the last commit."""
        self._out.update({one.out.job_id: one for one in offered})

    def leave(self) -> None:
        """What runs elsewhere goes on; its results are taken in when somebody drives the campaign again."""
        self._out.clear()

    def calls(self, offered: Sequence[Offered], pace: Pace) -> dict[str, int]:
        """How many slots are to be woken, by queue: one for as many jobs as a slot claims together."""
        slots: dict[str, float] = {}
        for one in offered:
            queue, group = queue_of(self._built.rungs[one.position]), pace.group(one.position)
            slots[queue] = slots.get(queue, 0.0) + 1 / group
        return {queue: math.ceil(n - 1e-9) for queue, n in slots.items()}

    def forget(self, job_ids: Sequence[int]) -> None:
        """These were withdrawn: they wait for a driver."""
        for one in job_ids:
            self._out.pop(one, None)

    def restate(self, connection: Connection) -> None:
        """The purse was read anew from the ledger: what is in it by now is not to be counted again."""
        if not self._out:
            return
        seen, held = (
            offers.last_attempts(connection, list(self._out)),
            reservations.held(connection, self._built.row.id),
        )
        for id_, one in self._out.items():
            out = one.out._replace(seen=seen.get(id_, one.out.seen))
            self._out[id_] = replace(one, out=out, reservation=Cost(held.get(id_)))

    def rooms(self, connection: Connection, pace: Pace) -> Rooms:
        """How many more jobs of each rung may be out: long ones as many as there are slots, so that the choice is made
        when one is free; shorter ones twice as many. A slot takes as many as share a call."""
        if time.monotonic() - self._looked > ROOM_SECONDS:
            self._look(connection)
        out: dict[str, float] = {}
        of_rung: dict[int, float] = {}
        for one in self._out.values():
            queue, slot = queue_of(self._built.rungs[one.position]), 1 / _share(pace, one.position)
            if self._most.get(one.position) != 0:  # else it takes no slot from those that can be run
                out[queue] = out.get(queue, 0.0) + slot
            of_rung[one.position] = of_rung.get(one.position, 0.0) + slot
        rooms = {}
        for rung in self._built.paid:
            position, queue = rung.rules.position, queue_of(rung)
            left = max(self._slots.get(queue, 0), NOBODY) - out.get(queue, 0.0)
            if position in self._most:
                left = min(left, max(self._most[position], NOBODY) - of_rung.get(position, 0.0))
            rooms[position] = max(0, round(left * _share(pace, position)))
        return Rooms(rooms)

    def _look(self, connection: Connection) -> None:
        """Who works now; of each rung how many jobs could run at once, and what is missing where that is none, which is
        said once."""
        alive, self._looked = workers.alive(connection), time.monotonic()
        before, self.unheld = self.unheld, {}
        self._slots, self._most = workers.slots_of(alive), {}
        for rung in self._built.paid:
            can = capacity(alive, queue_of(rung), rung.holds, rung.limits.memory_mb)
            self._most[rung.rules.position] = can.most
            if can.missing:
                why = cannot(queue_of(rung), rung.holds, can)
                self.unheld[rung.spec.label] = f'rung "{rung.spec.label}": {why}'
        for label, why in self.unheld.items():
            if before.get(label) != why:
                log.warning("%s", why, extra={"about": {"event": "no_worker_can_hold", "rung": label}})
                campaigns.log_event(connection, self._built.row.id, "no_worker_can_hold", {"rung": label, "why": why})

    @property
    def queues(self) -> dict[str, int]:
        """Queues of this campaign, and how many slots serve each."""
        return {queue_of(rung): self._slots.get(queue_of(rung), 0) for rung in self._built.paid}

    def poll(self, connection: Connection) -> list[Ended]:
        """Those that have ended since."""
        return offers.ended(connection, {id_: one.out for id_, one in self._out.items()}) if self._out else []

    def settle(self, connection: Connection, ended: Sequence[Ended]) -> list[Offered]:
        """Work out where their candidates stand now, and write it."""
        mine = [(one, self._out[one.job_id]) for one in ended]
        settlings = [
            _settling(one, offered)
            for one, offered in mine
            if one.state is not JobState.CANCELLED or self._waits(connection, offered)
        ]
        settle(connection, self._built, settlings)
        return [offered for _, offered in mine]

    def _waits(self, connection: Connection, offered: Offered) -> bool:
        """Whether the candidate still waits for this rung; who cancelled a job may have sent it elsewhere."""
        stands = standings.get(connection, self._built.row.id, offered.out.candidate_id)
        return bool(stands["standing"] == Standing.PENDING and stands["position"] == offered.position)

    def account(self, purse: BudgetTracker, pace: Pace, ended: Sequence[Ended]) -> None:
        """After the commit: what they have cost, and what is not held for them any more."""
        for one in ended:
            offered = self._out.pop(one.job_id)
            purse.spend(one.cost)
            purse.release(offered.reservation)
            if one.wall_seconds is not None and one.state is JobState.DONE:
                pace.observe(offered.position, one.wall_seconds)
            if one.state is JobState.DONE and offered.declared is not None:
                self._built.rungs[offered.position].cost_model.observe(offered.declared, one.cost, one.wall_seconds)


def queue_of(rung: BuiltRung) -> str:
    """Where workers find jobs of this rung."""
    return str(rung.verifier.tier)


def offer_of(rung: BuiltRung, declared: Cost | None) -> Offer:
    """seconds: on one core, as learnt so far."""
    expected = None if declared is None else rung.cost_model.expected(declared).get("core_seconds")
    return Offer(queue_of(rung), expected, rung.limits.memory_mb, text_of(rung.holds))


def request_for_workers(rung: BuiltRung) -> dict[str, object]:
    """What the row of a rung tells workers elsewhere."""
    verifier = rung.verifier
    told = {"settings": verifier.request_settings, "limits": asdict(rung.limits), "resources": rung.holds}
    return told | ({"together": verifier.together} if verifier.together > 1 else {})


def _share(pace: Pace, position: Position) -> int:
    """Jobs of a rung that keep one slot busy until the driver looks again: those of one call, and of short ones as many
    again that wait."""
    return pace.group(position) * (2 if pace.ahead(position, LONG_SECONDS) else 1)


def _settling(one: Ended, offered: Offered) -> Settling:
    out = offered.out
    if one.state in (JobState.DONE, JobState.CANCELLED) or one.outcome is None:
        return Settling(out.candidate_id, offered.position)
    failed = Finding(str(out.candidate_id), one.outcome, reason=one.reason, detail=one.detail)
    gave_up = None
    if one.state is JobState.QUARANTINED:
        gave_up = given_up(one.outcome, one.reason, one.detail, one.kills, one.losses)
    return Settling(out.candidate_id, offered.position, failed, gave_up)
