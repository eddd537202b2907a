"""Directives: appended in the order of commits, found by campaign and by candidate through an index."""

from __future__ import annotations

import threading

import pytest

from sciagent.domain.directives import Verb
from sciagent.errors import UsageError
from sciagent.store import campaigns, directives
from sciagent.store.ledger import Ledger
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
        said = directives.since(connection, row.id, 0)
        assert [(d.verb, d.candidate_id, d.rung, d.who) for d in said] == [
            (Verb.HOLD, first, None, "ann"), (Verb.PROMOTE, second, "r2", "ann"),
        ]  # fmt: skip
        assert directives.since(connection, row.id, said[0].id) == said[1:]
        assert directives.last(connection, row.id) == said[1].id
        assert directives.last(connection, 10**6) == 0
        assert directives.on(connection, row.id, first) == said[:1]
        assert directives.word(connection, row.id, first).held
        assert directives.word(connection, row.id, second).promoted_to == 2
        assert not directives.word(connection, other.id, first).rests


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
                for one in directives.since(connection, row.id, cursor):
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
        directives.reason(text)
    assert directives.reason(" two\nlines ") == "two lines"
