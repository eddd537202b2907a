"""Rows written by one statement are those that SQLAlchemy would have written."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from sciagent.domain.cost_and_budget import Cost
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import UnreadableRow, among, execute_many, insert_many, read_each
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import reservations_and_bookings
from tests.support import rows

NOW = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)


def laid_up(**given: Any) -> dict[str, Any]:
    """A candidate, which has texts, numbers, JSON, a time and a column that may be empty."""
    key = str(given["key"])
    return {
        "key": key, "kind": "molecule", "text": f"C{key}", "identity": key, "inchikey": None, "formula": "CH4",
        "charge": -1, "multiplicity": 2, "n_atoms": 5, "payload": {"a": [1, None, "\0"]}, "standardiser": "1",
        "library": "x", "created_at": NOW, **given,
    }  # fmt: skip


def everything(ledger: Ledger) -> list[dict[str, Any]]:
    with ledger.read() as connection:
        rows = connection.execute(sa.select(t.candidate).order_by(t.candidate.c.key)).mappings()
        return [{name: value for name, value in row.items() if name != "id"} for row in rows]


def test_inserts_are_those_of_sqlalchemy(ledger: Ledger) -> None:
    one, other = laid_up(key="a"), laid_up(key="b", inchikey="Q" * 27)
    with ledger.begin() as connection:
        execute_many(connection, t.candidate, [one, other])
    mine = everything(ledger)
    with ledger.begin() as connection:
        connection.execute(sa.delete(t.candidate))
        connection.execute(sa.insert(t.candidate), [one, other])
    assert mine == everything(ledger)
    assert mine[0]["created_at"] == NOW and mine[0]["payload"] == {"a": [1, None, "\N{REPLACEMENT CHARACTER}"]}


def test_what_is_alike_in_all_rows_is_given_once(ledger: Ledger) -> None:
    alike = {name: laid_up(key="")[name] for name in ("payload", "created_at", "charge")}
    rows = [{k: v for k, v in laid_up(key=key).items() if k not in alike} for key in "ab"]
    with ledger.begin() as connection:
        execute_many(connection, t.candidate, rows, alike)
        charged = sa.update(t.candidate).where(t.candidate.c.key == sa.bindparam("of"))
        execute_many(connection, charged, [{"of": "b", "text": "CB"}], {"charge": 4})
        execute_many(connection, charged, [], {"charge": 5})
    one, other = everything(ledger)
    assert one["created_at"] == other["created_at"] == NOW
    assert one["payload"] == {"a": [1, None, "\N{REPLACEMENT CHARACTER}"]}
    assert (one["charge"], other["charge"], other["text"]) == (-1, 4, "CB")


def test_updates_find_their_rows_and_what_the_statement_says_of_all_holds(ledger: Ledger) -> None:
    c = t.candidate.c
    with ledger.begin() as connection:
        execute_many(connection, t.candidate, [laid_up(key=key) for key in "abc"])
        charged = sa.update(t.candidate).where(c.key == sa.bindparam("of"), c.kind == "molecule").values(library="new")
        execute_many(connection, charged, [{"of": "a", "charge": 1}, {"of": "c", "charge": 3}])
        execute_many(connection, charged, [])
    assert [(row["key"], row["charge"], row["library"]) for row in everything(ledger)] == [
        ("a", 1, "new"),
        ("b", -1, "x"),
        ("c", 3, "new"),
    ]


def test_among_asks_for_numbers_and_texts_and_for_nothing(ledger: Ledger) -> None:
    c = t.candidate.c
    with ledger.begin() as connection:
        execute_many(connection, t.candidate, [laid_up(key=key) for key in ("a", "b'\"", "c")])

        def keys(condition: Any) -> list[str]:
            return list(connection.execute(sa.select(c.key).where(condition).order_by(c.key)).scalars())

        assert keys(among(connection, c.key, ["c", "b'\"", "none"])) == ["b'\"", "c"]
        ids = list(connection.execute(sa.select(c.id).where(c.key != "c")).scalars())
        assert keys(among(connection, c.id, [*ids, 10**12])) == ["a", "b'\""]
        assert keys(among(connection, c.id, [])) == []


def test_ids_are_those_of_the_rows_and_nobody_gets_them_again(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        execute_many(connection, t.candidate, [laid_up(key="a")])
        before = connection.execute(sa.select(t.candidate.c.id)).scalar_one()
        ids = insert_many(connection, t.candidate, [laid_up(key=f"{i:04}") for i in reversed(range(300))])
        execute_many(connection, t.candidate, [laid_up(key="z")])
        found = {int(i): key for i, key in connection.execute(sa.select(t.candidate.c.id, t.candidate.c.key))}
        assert insert_many(connection, t.candidate, []) == []
    assert len(found) == 302 and ids == sorted(ids) and min(ids) > before
    assert [found[i] for i in ids] == [f"{i:04}" for i in reversed(range(300))]
    assert found[max(found)] == "z"


def test_what_a_database_has_no_word_for_is_written_as_sqlalchemy_would(ledger: Ledger) -> None:
    odd = [
        laid_up(key="nan", payload={"x": math.nan, "y": [-math.inf]}),
        laid_up(key="none", payload=None),
        laid_up(key="\U0001f9ea", text="\ud800 \0 \\u0000 \u00e9", payload={"\ud800": "\U0001f9ea"}),
        laid_up(key="cost", payload=Cost(core_seconds=np.float64(1.5))),
    ]
    with ledger.begin() as connection:
        execute_many(connection, t.candidate, odd)
    mine = everything(ledger)
    with ledger.begin() as connection:
        connection.execute(sa.delete(t.candidate))
        connection.execute(sa.insert(t.candidate), odd)
    assert mine == everything(ledger)


def test_numbers_come_back_to_the_last_digit(ledger: Ledger) -> None:
    values = [0.1 + 0.2, 1e-310, -0.0, 2.0**53 + 1, 1.7976931348623157e308]
    with ledger.begin() as connection:
        rows.campaign(connection)
        for one in values:
            reservations_and_bookings.book_many(
                connection, [reservations_and_bookings.Bill(1, None, None, {"core_seconds": one})]
            )
        found = connection.execute(sa.select(t.spend.c.amount).order_by(t.spend.c.id)).scalars().all()
    assert found == [one for one in values if one]


def test_rows_that_cannot_be_read_are_told_apart_from_those_that_can() -> None:
    texts = ["1", "2", "x", "4", "5", "y", "7"]
    read = read_each(range(len(texts)), lambda ids: [int(texts[id_]) for id_ in ids])
    assert [row for row in read if not isinstance(row, UnreadableRow)] == [1, 2, 4, 5, 7]
    assert [str(row) for row in read if isinstance(row, UnreadableRow)] == [
        "2 cannot be read: ValueError: invalid literal for int() with base 10: 'x'",
        "5 cannot be read: ValueError: invalid literal for int() with base 10: 'y'",
    ]
    assert read_each([], lambda ids: [*ids]) == []
