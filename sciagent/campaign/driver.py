"""The driver: steps a campaign from the ledger under its lease. Kill it at any moment; another goes on from there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from sciagent.campaign.build import Built
from sciagent.campaign.collect import collect, reap
from sciagent.campaign.dispatch import Ticket, choose, promote, request_of, take_queued
from sciagent.campaign.heartbeat import Heartbeat
from sciagent.campaign.money import Purse
from sciagent.campaign.prepare import prepare
from sciagent.campaign.workbench import CampaignWorkbench
from sciagent.domain.evidence import content_hash
from sciagent.domain.ports import Turn
from sciagent.domain.states import CampaignState
from sciagent.errors import StaleLeaseError
from sciagent.execution.local import LocalPool
from sciagent.store import campaigns, evidence, jobs, queries, standings
from sciagent.store import tables as t
from sciagent.store.clock import db_now
from sciagent.verification.host import Worker, sweep

BARREN_TURNS = 25  # a proposer that brings nothing new so often in a row has nothing left


class Driver:
    """Steps one campaign. workers: jobs at once, default as in the spec.

    Use as a context manager: entering takes the driver lease and what dead drivers left, leaving gives it back.

    Raises CampaignError when a live driver holds the campaign.
    """

    def __init__(self, built: Built, workers: int | None = None) -> None:
        self.built = built
        self._workers = workers or built.spec.workers
        self.owner = campaigns.new_owner()
        self.reaped = 0
        self._stop = threading.Event()
        self._abort = threading.Event()
        self._exhausted = False
        self._barren = 0
        self._blocked = False  # something could run, but the budget does not hold it
        self._holding = False  # the proposer waits for the first paid rung; dearer rungs wait with it
        self._tickets: dict[int, Ticket] = {}
        self._proposer = built.make_proposer()

    def __enter__(self) -> Driver:
        built = self.built
        with built.ledger.begin() as connection:
            self._lease = campaigns.take_driver(connection, built.row.id, self.owner)
        try:
            self.reaped = reap(built, self._lease)
            sweep(built.scratch())
            with built.ledger.begin() as connection:
                campaigns.set_state(connection, built.row.id, CampaignState.RUNNING)
                campaigns.log_event(connection, built.row.id, "driver_started", {"reaped": self.reaped})
                self._purse = Purse(built, connection)
                self._trajectory_id = self._open_trajectory(connection)
                self._turn_number, self._cursor = self._last_turn(connection)
                self._proposals = queries.count(connection, t.proposal, t.proposal.c.campaign_id == built.row.id)
                self._hits = queries.hits(connection, built.row.id)
            prepare(built.rungs)
            fast = [r.verifier.name for r in built.fast]
            paid = [r.verifier.name for r in built.paid]
            self._worker = Worker(built.scratch(), preload=fast)
            self._pool: LocalPool[Ticket] = LocalPool(self._workers, built.scratch(), preload=paid)
        except BaseException:
            with built.ledger.begin() as connection:
                campaigns.release_driver(connection, self._lease)
            raise
        self._heart = Heartbeat(built.ledger, self._lease, lambda: [k.claim for k in list(self._tickets.values())])
        self._heart.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._pool.close()
        self._worker.close()
        self._heart.stop()
        if not self._heart.lost.is_set():
            with self.built.ledger.begin() as connection:
                state = connection.execute(
                    sa.select(t.campaign.c.state).where(t.campaign.c.id == self.built.row.id)
                ).scalar()
                if state == CampaignState.RUNNING:  # an error is on its way out
                    campaigns.set_state(connection, self.built.row.id, CampaignState.FAILED, repr(error)[:500])
                campaigns.release_driver(connection, self._lease)

    def request_stop(self) -> None:
        """Start nothing more; what runs may finish."""
        self._stop.set()

    def abort(self) -> None:
        """Kill what runs; it is run again when the campaign is resumed."""
        self._stop.set()
        self._abort.set()

    def run(self, on_step: Callable[[], None] = lambda: None) -> CampaignState:
        """Step until the goal is reached, the budget is spent, nothing is left, or a stop was asked for."""
        while True:
            on_step()
            ended = self.step()
            if ended is not None:
                on_step()
                return ended

    def step(self, wait: float = 0.25) -> CampaignState | None:
        """Collect, propose, dispatch. Idempotent from the ledger; returns the final state once the campaign has one."""
        if self._heart.lost.is_set():
            raise StaleLeaseError("another process drives this campaign now; this one stops and writes nothing more")
        if self._abort.is_set():
            self._pool.cancel()
        self._collect(wait if self._pool.running else 0.0)
        ending = self._ending()
        if ending is None:
            proposed = self._propose()
            started = self._dispatch()
            if proposed or started or self._pool.running:
                return None
            ending = self._nothing_left()
        if self._pool.running:
            return None
        with self.built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            campaigns.set_state(connection, self.built.row.id, ending[0], ending[1])
            campaigns.log_event(connection, self.built.row.id, "ended", {"state": ending[0], "why": ending[1]})
        return ending[0]

    def _ending(self) -> tuple[CampaignState, str] | None:
        """Why nothing more shall be started, or None."""
        built = self.built
        if self._stop.is_set():
            return CampaignState.INTERRUPTED, "interrupted"
        goal = built.spec.goal
        if goal.kind == "hits" and goal.count is not None and self._hits >= goal.count:
            return CampaignState.FINISHED, f"{self._hits} hits; {goal.count} were asked for"
        if spent := self._purse.exhausted():
            return CampaignState.BUDGET_SPENT, spent
        if (
            built.rule.stops_when_terminal_is_spent
            and self._purse.remaining_jobs(built.terminal) == 0
            and not self._queued(built.terminal)  # places taken before a kill or a crash, and not used yet
        ):
            label = built.rungs[built.terminal].spec.rung
            return (
                CampaignState.BUDGET_SPENT,
                f"all {built.limit_by_rung[built.terminal]} verifications of {label} are used",
            )
        return None

    def _nothing_left(self) -> tuple[CampaignState, str]:
        """Nothing runs and nothing can be started: because all is done, or because the budget does not hold it."""
        if self._blocked:
            return CampaignState.BUDGET_SPENT, "what is left of the budget holds no further job"
        with self.built.ledger.read() as connection:
            positions = [r.rules.position for r in self.built.paid]
            waiting = standings.count_at(connection, self.built.row.id, positions, 10**9)
        if waiting:
            return CampaignState.BUDGET_SPENT, f"the budget by rung is used; {waiting} candidates still wait"
        return CampaignState.FINISHED, "nothing is left to do"

    def _queued(self, position: int) -> bool:
        with self.built.ledger.read() as connection:
            return jobs.any_queued(connection, self.built.rungs[position].id)

    def _collect(self, wait: float) -> None:
        done = self._pool.next_completed(wait)
        while done is not None:
            collect(self.built, self._purse, self._lease, done, interrupted=self._abort.is_set())
            self._tickets.pop(done.token.claim.job_id, None)
            if done.token.rung.rules.is_terminal:
                with self.built.ledger.read() as connection:
                    self._hits = queries.hits(connection, self.built.row.id)
            done = self._pool.next_completed(0.0)

    def _dispatch(self) -> bool:
        """Fill the free slots; True if anything was started or reused."""
        built, acted = self.built, False
        self._blocked = False
        while self._pool.free > 0:
            submitted: list[Ticket] = []
            reused = False
            with built.ledger.begin() as connection:
                campaigns.check_driver(connection, self._lease)
                submitted += take_queued(connection, built, self.owner, self._pool.free)
                slots = self._pool.free - len(submitted)
                for choice in choose(connection, built, self._purse, slots, self._holding) if slots else ():
                    made = promote(connection, built, self._purse, choice, self.owner)
                    if isinstance(made, Ticket):
                        submitted.append(made)
                    elif made == "reused":
                        reused = True
                    else:
                        self._blocked = True
            for ticket in submitted:  # only after the commit: the ledger is the record
                self._tickets[ticket.claim.job_id] = ticket
                self._pool.submit(ticket, request_of(built, ticket))
            acted |= bool(submitted) or reused
            if not reused:
                break
        return acted

    def _propose(self) -> bool:
        """One turn of the proposer, if fewer candidates than `ahead` wait; True if it brought anything new."""
        built = self.built
        self._holding = False
        limit = built.spec.proposer.batch
        if built.spec.budget.proposals is not None:
            limit = min(limit, built.spec.budget.proposals - self._proposals)
        if self._exhausted or limit <= 0:
            return False
        with built.ledger.read() as connection:
            runnable = [r.rules.position for r in built.paid if self._purse.remaining_jobs(r.rules.position) != 0]
            if standings.count_at(connection, built.row.id, runnable, built.ahead) >= built.ahead:
                return False
            if built.waits and built.paid:
                first = built.paid[0].rules.position
                self._holding = standings.count_at(connection, built.row.id, [first], 1) > 0
                if self._holding:
                    return False
        number = self._turn_number + 1
        seed = int(content_hash([built.spec.campaign, built.spec.seed, 0, number])[:12], 16)
        bench = CampaignWorkbench(built, self._worker, self.owner)
        cursor = self._proposer.turn(bench, Turn(number, seed, self._cursor), limit)
        if cursor is None:
            self._exhausted = True
            return False
        with built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            turn_id = self._write_turn(connection, number, cursor, bench)
            bench.commit(connection, turn_id)
            self._purse.spend(bench.cost)
        self._turn_number, self._cursor = number, cursor
        self._proposals += bench.n_proposals
        self._barren = 0 if bench.n_new else self._barren + 1
        self._exhausted = self._barren >= BARREN_TURNS
        return True

    def _open_trajectory(self, connection: Any) -> int:
        c = t.trajectory.c
        found = connection.execute(sa.select(c.id).where(c.campaign_id == self.built.row.id, c.number == 0)).scalar()
        if found is not None:
            return int(found)
        values = {
            "campaign_id": self.built.row.id,
            "number": 0,
            "proposer": self._proposer.name,
            "settings": self.built.spec.proposer.model_dump(mode="json"),
            "seed": self.built.spec.seed,
            "state": "running",
            "started_at": db_now(connection),
        }
        return int(connection.execute(t.trajectory.insert().values(values).returning(c.id)).scalar_one())

    def _last_turn(self, connection: Any) -> tuple[int, dict[str, Any]]:
        c = t.turn.c
        query = (
            sa.select(c.number, c.cursor)
            .where(c.trajectory_id == self._trajectory_id)
            .order_by(c.number.desc())
            .limit(1)
        )
        row = connection.execute(query).one_or_none()
        return (-1, {}) if row is None else (int(row[0]), dict(row[1] or {}))

    def _write_turn(self, connection: Any, number: int, cursor: dict[str, Any], bench: CampaignWorkbench) -> int:
        values = {
            "trajectory_id": self._trajectory_id,
            "number": number,
            "cursor": cursor,
            "calls": bench.calls,
            "observations": bench.observations,
            "watermark": evidence.read_watermark(connection),
            "cost": dict(bench.cost),
            "policy_version": f"{self._proposer.name}",
            "at": db_now(connection),
        }
        return int(connection.execute(t.turn.insert().values(values).returning(t.turn.c.id)).scalar_one())
