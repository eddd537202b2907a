"""Directives: appended in the order of commits, found by campaign and by candidate through an index."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from sciagent.domain.states_and_needs import Verb
from sciagent.errors import UsageError
from sciagent.store.campaign_state import campaigns, directives, note_and_take_watermarks
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, reservations_and_bookings
from tests.support import rows


def test_what_was_said_is_read_back_in_order(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        row, other = rows.campaign(connection), rows.campaign(connection, "others")
        first, second = rows.entered(connection, row, 2)
        rung = campaigns.rungs(connection, row.id)[2]
        directives.write(connection, row.id, Verb.HOLD, "ann", "wait for the solvent", candidate_id=first)
        directives.write(connection, other.id, Verb.STOP, "bob", "")
        directives.write(connection, row.id, Verb.PROMOTE, "ann", "now", candidate_id=second, rung_id=rung.id)
    with ledger.read() as connection:
        said = directives.directives_since(connection, row.id, 0)
        assert [(d.verb, d.candidate_id, d.rung, d.who) for d in said] == [
            (Verb.HOLD, first, None, "ann"),
            (Verb.PROMOTE, second, "r2", "ann"),
        ]
        assert directives.directives_since(connection, row.id, said[0].id) == said[1:]
        assert directives.last_id(connection, row.id) == said[1].id
        assert directives.last_id(connection, 10**6) == 0
        assert directives.directives_on(connection, row.id, first) == said[:1]
        assert directives.steering_of(connection, row.id, first).held
        assert directives.steering_of(connection, row.id, second).promoted_to == 2
        assert not directives.steering_of(connection, other.id, first).blocks_scheduling


def test_a_reader_never_misses_a_word_that_commits_late(ledger: Ledger) -> None:
    """Ids are taken under the lock of the campaign's row: who reads up to n has seen all up to n."""
    with ledger.begin() as connection:
        row = rows.campaign(connection)
    seen: list[int] = []
    done = threading.Event()

    def read() -> None:
        cursor = 0
        last = False
        while not last:
            last = done.is_set()  # before the transaction, which sees what was there when it began
            with ledger.read() as connection:
                for one in directives.directives_since(connection, row.id, cursor):
                    seen.append(one.payload["n"])
                    cursor = one.id

    def write(start: int) -> None:
        for n in range(start, start + 20):
            with ledger.begin() as connection:
                directives.write(connection, row.id, Verb.ADD, "ann", "", payload={"n": n})

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 100)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join(timeout=30)
    assert sorted(seen) == [*range(20), *range(100, 120)]


@pytest.mark.parametrize(("text", "fault"), [("  \n ", "is empty"), ("x" * 2001, "2001 characters")])
def test_a_reason_is_needed_and_bounded(text: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        directives.checked_reason(text)
    assert directives.checked_reason(" two\nlines ") == "two lines"


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_word_that_cancels_and_a_worker_that_books_do_not_wait_for_each_other(ledger: Ledger) -> None:
    """The worker has the job's row and writes a row that names the campaign; the person has the campaign's, and wants
    the job's."""
    with ledger.begin() as connection:
        row = rows.campaign(connection)
        (candidate_id,) = rows.entered(connection, row, 1)
        rung_id = campaigns.rungs(connection, row.id)[1].id
        [job_id] = jobs.create_many(connection, [jobs.NewJob(row.id, rung_id, candidate_id, 0, "k", 0.0)])
    locked = threading.Event()

    def cancel() -> tuple[list[int], list[int]]:
        with ledger.begin() as connection:
            note_and_take_watermarks.lock(connection, row.id)
            locked.set()
            return jobs.request_cancel(connection, [job_id])

    with ThreadPoolExecutor(1) as pool:
        with ledger.begin() as connection:
            connection.execute(sa.select(t.job).where(t.job.c.id == job_id).with_for_update())
            told = pool.submit(cancel)
            assert locked.wait(10)
            time.sleep(0.2)
            reservations_and_bookings.book_many(
                connection, [reservations_and_bookings.Bill(row.id, rung_id, None, {"core_seconds": 1.0})]
            )
        assert told.result(timeout=10) == ([job_id], [])
