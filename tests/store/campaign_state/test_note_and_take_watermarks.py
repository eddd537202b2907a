"""The watermark's order is the order in which evidence becomes visible; without that a reward could not be replayed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa

from sciagent.domain.states_and_needs import AttemptState
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.results import candidates, evidence
from tests.support import rows
from tests.support.rows import alkanes, gap, new_evidence

WRITERS, EACH = 6, 25


def test_what_lies_below_a_watermark_never_grows(ledger: Ledger, ledger_url: str) -> None:
    """Writers on connections of their own, a third of whose transactions fail, and a reader that looks all the time."""
    with ledger.begin() as connection:
        ids = list(candidates.enter(connection, alkanes(WRITERS)).values())
    over = threading.Event()

    class GivenUpError(Exception):
        pass

    def write(number: int) -> None:
        own = Ledger(ledger_url)
        for i in range(EACH):
            try:
                with own.begin() as connection:
                    two = [new_evidence(ids[number], gap(), replicate=2 * i + k) for k in range(2)]
                    evidence.record(connection, two)
                    if i % 3 == number % 3:
                        raise GivenUpError
            except GivenUpError:
                pass
        own.close()

    def look() -> tuple[dict[int, int], list[str]]:
        own, seen, faults = Ledger(ledger_url), {}, []
        while not over.is_set():
            with own.read() as connection:
                marks = connection.execute(sa.select(t.evidence.c.watermark)).scalars().all()
            top = max(marks, default=0)
            if sorted(marks) != list(range(1, top + 1)):
                faults.append(f"gap below {top}")
            if seen.setdefault(top, len(marks)) != len(marks) or top < max(seen):
                faults.append(f"{top}: {seen[top]} rows, then {len(marks)}")
        own.close()
        return seen, faults

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        reader = pool.submit(look)
        for writer in [pool.submit(write, n) for n in range(WRITERS)]:
            writer.result()
        over.set()
        seen, faults = reader.result()
    kept = sum(i % 3 != n % 3 for n in range(WRITERS) for i in range(EACH))
    assert faults == []
    assert len(seen) > 2, "the reader saw nothing of the race"
    with ledger.read() as connection:
        marks = connection.execute(sa.select(t.evidence.c.watermark).order_by(t.evidence.c.watermark)).scalars().all()
        assert evidence.read_watermark(connection) == 2 * kept
    assert marks == list(range(1, 2 * kept + 1))


def test_attempts_up_to_a_watermark_are_a_fixed_set(ledger: Ledger, ledger_url: str) -> None:
    """Workers whose jobs fail, and so bring no evidence, end attempts at watermarks of their own, beside those who
    record evidence."""
    with ledger.begin() as connection:
        ids = list(candidates.enter(connection, alkanes(WRITERS)).values())
    over = threading.Event()
    end = AttemptState.FAILED, {"core_seconds": 1.0}, 1.0, "crashed"

    def write(number: int) -> None:
        own = Ledger(ledger_url)
        for i in range(EACH):
            with own.begin() as connection:
                if number % 2:
                    evidence.record(connection, [new_evidence(ids[number], gap(), replicate=i)])
                    continue
                attempt_id = attempts.begin(connection, "me", campaign_id=None, rung_id=None)
                attempts.end_many(connection, [AttemptEnd(attempt_id, *end)])
                attempts.mark_end(connection, [attempt_id])
                attempts.mark_end(connection, [attempt_id], 10**6)  # who ended keeps the first
        own.close()

    def look() -> tuple[int, list[str]]:
        own, seen, faults = Ledger(ledger_url), dict[int, set[int]](), list[str]()
        while not over.is_set():
            with own.read() as connection:
                top = evidence.read_watermark(connection)
                marks = set(connection.execute(sa.select(t.attempt.c.watermark)).scalars())
            faults += [f"{marks - {*range(top + 1)}} above {top}"] * bool(marks - {*range(top + 1)})
            for earlier, known in seen.items():
                if known != {mark for mark in marks if mark <= earlier}:
                    faults.append(f"attempts up to {earlier} have changed")
            seen[top] = marks
        own.close()
        return len(seen), faults

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        reader = pool.submit(look)
        for writer in [pool.submit(write, n) for n in range(WRITERS)]:
            writer.result()
        over.set()
        looks, faults = reader.result()
    assert faults == [] and looks > 2
    with ledger.read() as connection:
        marks = connection.execute(sa.select(t.attempt.c.watermark)).scalars().all()
        known = connection.execute(sa.select(t.evidence.c.watermark)).scalars().all()
        assert sorted([*marks, *known]) == list(range(1, WRITERS * EACH + 1))


def test_of_two_writers_under_one_key_the_second_keeps_the_first(ledger: Ledger, ledger_url: str) -> None:
    """The race of two campaigns that verify the same molecule: one row, and nobody fails."""
    with ledger.begin() as connection:
        ids = list(candidates.enter(connection, alkanes(20)).values())
    start = threading.Barrier(4)

    def write(number: int) -> list[int]:
        own, found = Ledger(ledger_url), []
        start.wait()
        for i in ids:
            with own.begin() as connection:
                found += rows.record_or_keep(connection, [new_evidence(i, gap(float(number)))])
        own.close()
        return found

    with ThreadPoolExecutor(4) as pool:
        found = [f.result() for f in [pool.submit(write, n) for n in range(4)]]
    assert found[0] == found[1] == found[2] == found[3] and len(set(found[0])) == 20


def test_writers_that_enter_the_same_candidates_do_not_lock_each_other_out(ledger: Ledger, ledger_url: str) -> None:
    made = alkanes(30)
    start = threading.Barrier(4)

    def write(number: int) -> None:
        own = Ledger(ledger_url)
        start.wait()
        for round_ in range(3):
            mine = made[round_ * 10 : round_ * 10 + 10]
            mine = mine[::-1] if number % 2 else mine
            with own.begin() as connection:
                ids = candidates.enter(connection, mine)
                candidates.enter_aliases(connection, [(ids[m.key], f"again {m.text}") for m in mine])
                rows.record_or_keep(connection, [new_evidence(ids[m.key], gap()) for m in mine])
        own.close()

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(write, n) for n in range(4)]:
            one.result(timeout=60)
    with ledger.read() as connection:
        for table in (t.candidate, t.candidate_alias, t.evidence):
            assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() == 30
