"""A worker's last word on its jobs: evidence, artifacts, attempt, spend and the job's end in one fenced transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.cost import Cost
from sciagent.domain.outcomes import Outcome
from sciagent.domain.states import AttemptState, JobState
from sciagent.execution.worker.claimed_jobs import Order
from sciagent.execution.worker.ending import TRIED_AGAIN, states_of
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, leases, spend
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import JobEnd
from sciagent.store.job_queue.spend import Bill, CostSeen
from sciagent.store.results import evidence
from sciagent.store.results.evidence import NewEvidence
from sciagent.verification.cost import unmeasured
from sciagent.verification.sandbox.host import HostResult

Stored = tuple[tuple[str, str, int, str], ...]  # artifacts: (name, sha256, size, media type)


def store_files(ledger: Ledger, results: Sequence[HostResult]) -> list[Stored]:
    """Put every artifact into the store (before the transaction that names it); then the spooled files are removed.
    Raises OSError, and may be called again."""
    stored = []
    for result in results:
        put = [(file, *ledger.artifacts.put(file.path)) for file in result.files]
        stored.append(tuple((file.name, sha256, size, file.media_type) for file, sha256, size in put))
    for result in results:
        for file in result.files:
            file.path.unlink(missing_ok=True)
    return stored


@dataclass(frozen=True)
class Done:
    """An order that was run. ended: its process was killed on purpose, because a person cancelled it, its lease was
    lost, or the worker was told to stop."""

    order: Order
    result: HostResult
    artifacts: Stored
    ended: bool = False

    @property
    def outcome(self) -> Outcome:
        return self.result.finding.outcome

    @property
    def is_evidence(self) -> bool:
        return self.outcome.rule.is_evidence

    @property
    def cost(self) -> Cost:
        """As measured; of one that was killed, the time that went by on the cores it held, for nobody measured it."""
        if self.outcome is Outcome.LOST:
            cores = self.order.task.limits.threads
            return self.result.cost or Cost(core_seconds=max(0.0, cores * self.result.wall_seconds))
        return self.result.cost + unmeasured(self.order.declared or {}, self.result.finding.spent)

    def states(self, cancel: bool) -> tuple[JobState, AttemptState]:
        """cancel: the ledger says that it is to be cancelled."""
        return states_of(self.result.finding, self.order.kills + 1, self.ended, cancel)


@dataclass(frozen=True)
class Written:
    """Job ids. mine: written under their fences. over: of these, those that will not be tried again. stale: refused,
    because somebody else had taken over."""

    mine: frozenset[int]
    over: frozenset[int]
    stale: frozenset[int]


def complete(connection: Connection, done: Sequence[Done]) -> Written:
    """Write all of it, once. Called again after a commit that nobody knows the end of, it writes nothing anew."""
    by_id = {one.order.claim.job_id: one for one in done}
    mine = leases.hold(connection, [one.order.claim for one in done])
    states = {id_: by_id[id_].states(cancel) for id_, cancel in mine.items()}
    ours = [by_id[id_] for id_ in mine]
    leases.end_held(
        connection,
        [
            JobEnd(one.order.claim, states[id_][0], one.outcome, int(one.outcome in TRIED_AGAIN and not one.ended))
            for id_, one in zip(mine, ours, strict=True)
        ],
    )
    attempts.end_many(connection, [_end(one, states[one.order.claim.job_id][1]) for one in ours])
    spend.book_many(connection, [_bill(one, one.cost) for one in ours])
    over = {id_ for id_ in mine if states[id_][0] is not JobState.QUEUED}
    _record(connection, [one for id_, one in by_id.items() if id_ in over and one.is_evidence])
    stale = _refuse(connection, [one for id_, one in by_id.items() if id_ not in mine])
    return Written(frozenset(mine), frozenset(over), frozenset(stale))


def _record(connection: Connection, good: Sequence[Done]) -> None:
    """Evidence, and what it cost. Who comes second under one key (another campaign was faster) is dropped: the first
    stands, and was computed under the same settings."""
    new = [
        NewEvidence(
            one.result.finding,
            one.order.key,
            one.order.candidate_id,
            attempt_id=one.order.claim.attempt_id,
            versions=one.result.versions,
            artifacts=one.artifacts,
        )
        for one in good
    ]
    evidence.record_or_keep(connection, new)
    seen = []
    for one in good:
        order, v = one.order, one.order.task.verifier
        if order.declared is not None:
            actual = one.result.cost + (one.result.finding.spent or {})
            ids = (order.candidate_id, order.claim.attempt_id)
            seen.append(CostSeen(v.name, v.version, v.settings_hash, *ids, order.declared, actual))
    spend.observe_costs(connection, seen)


def _refuse(connection: Connection, late: Sequence[Done]) -> list[int]:
    """Results of those who come too late: nothing of them is kept but what they have cost, beyond what was booked when
    they were taken for dead. One that we have written ourselves is none."""
    if not late:
        return []
    a = t.attempt.c
    query = sa.select(a.id, a.state, a.cost).where(
        among(connection, a.id, [one.order.claim.attempt_id for one in late])
    )
    found = {int(id_): (AttemptState(state), cost) for id_, state, cost in connection.execute(query).all()}
    open_ = (AttemptState.LOST, AttemptState.RUNNING)
    stale = [one for one in late if found[one.order.claim.attempt_id][0] in open_]
    owed, ends = [], []
    for one in stale:
        booked = found[one.order.claim.attempt_id][1]
        whole = Cost({k: max(one.cost.get(k, 0.0), booked.get(k, 0.0)) for k in {*one.cost, *booked}})
        ends.append(replace(_end(one, AttemptState.STALE), cost=whole))
        owed.append(_bill(one, Cost({k: v - booked.get(k, 0.0) for k, v in whole.items()})))
    attempts.end_many(connection, ends)
    spend.book_many(connection, owed)
    return [one.order.claim.job_id for one in stale]


def _end(one: Done, state: AttemptState) -> AttemptEnd:
    """The time is that of the verification, where it is known, without the start of a process: drivers go by it when
    they decide how many jobs share one."""
    f, own = one.result.finding, one.result.own_seconds
    took = one.result.wall_seconds if own is None else own
    return AttemptEnd(one.order.claim.attempt_id, state, one.cost, took, f.outcome, f.reason, f.detail)


def _bill(one: Done, cost: Cost) -> Bill:
    return Bill(one.order.task.campaign_id, one.order.task.rung_id, one.order.claim.attempt_id, cost)
