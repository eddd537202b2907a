"""How SQLite would answer what a function asks: by indexes, or by reading whole tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from sciagent.store.database.ledger import Ledger

WHOLE = (
    *("SCAN anon", "SCAN (subquery", "SCAN CONSTANT ROW"),  # what a query itself has made, and bounded
)


def plan_of(
    ledger: Ledger, ask: Callable[[Any], object], *, kinds: tuple[str, ...] = ("SELECT",), writes: bool = False
) -> list[str]:
    """The plan of every statement of these kinds that `ask` sends, a line each. writes: it changes something."""
    asked: list[tuple[str, Any]] = []

    def listen(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if statement.startswith(kinds):
            asked.append((statement, parameters[0] if many else parameters))

    with ledger.begin() if writes else ledger.read() as connection:
        sa.event.listen(ledger.engine, "before_cursor_execute", listen)
        try:
            ask(connection)
        finally:
            sa.event.remove(ledger.engine, "before_cursor_execute", listen)
        assert asked
        return [
            str(row[3])
            for statement, parameters in asked
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]


def scans(plan: list[str]) -> list[str]:
    """The lines that read a whole table."""
    return [line for line in plan if line.startswith("SCAN") and not line.startswith(WHOLE)]
