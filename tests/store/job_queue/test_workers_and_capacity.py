"""Registered workers: alive while they report, in the order in which they registered, and how many slots they give."""

from __future__ import annotations

from datetime import timedelta

from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import workers_and_capacity
from sciagent.store.job_queue.workers_and_capacity import NewWorker


def new(name: str, slots: int = 2, **more: int) -> NewWorker:
    return NewWorker(name, "host", 1, "ledger", ("simulation", "high_fidelity"), slots, 8000, None, more)


def test_a_worker_is_alive_until_it_stops_or_is_silent_for_long(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        for name in ("a", "b", "c"):
            workers_and_capacity.register(connection, new(name))
        workers_and_capacity.report_stopped(connection, "a")
        long_ago = db_now(connection) - timedelta(seconds=10)
        connection.execute(t.worker.update().where(t.worker.c.name == "b").values(until=long_ago))
        assert [worker.name for worker in workers_and_capacity.alive(connection)] == ["c"]
        lately = workers_and_capacity.reported_since(connection, db_now(connection) - timedelta(days=1))
        assert [worker.name for worker in lately] == ["a", "b", "c"]
        assert not workers_and_capacity.report_alive(connection, "b")
        assert [worker.name for worker in workers_and_capacity.alive(connection)] == ["b", "c"]


def test_a_draining_worker_gives_no_slots(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        workers_and_capacity.register(connection, new("a", slots=2))
        workers_and_capacity.register(connection, new("b", slots=3, gpu=1))
        assert workers_and_capacity.drain(connection, "a") and not workers_and_capacity.drain(connection, "nobody")
        assert workers_and_capacity.report_alive(connection, "a"), "it hears at its next report that it drains"
        alive = workers_and_capacity.alive(connection)
    assert [(worker.name, worker.slots, worker.resources) for worker in alive] == [("a", 2, {}), ("b", 3, {"gpu": 1})]
    assert workers_and_capacity.slots_of(alive) == {"simulation": 3, "high_fidelity": 3}
