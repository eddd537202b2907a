"""Many rows by one statement: its parameters are put together here. SQLAlchemy's own `execute` of many rows takes three
times as long for it, and longer than the database takes to write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection


def execute_many(connection: Connection, statement: sa.Insert | sa.Update, rows: Sequence[Mapping[str, Any]]) -> None:
    """What `connection.execute(statement, rows)` does where nothing is returned. rows: each with the same names, those
    of columns or of `bindparam`s; a column that is left out gets the database's default, not one of Python's."""
    if not rows:
        return
    if isinstance(statement, sa.Insert):
        statement = statement.inline()  # else PostgreSQL is asked for the ids
    dialect = connection.dialect
    compiled = statement.compile(dialect=dialect, column_keys=list(rows[0]))
    binds = {name: bind for bind, name in compiled.bind_names.items()}
    makers = {
        name: _maker(bind.type.dialect_impl(dialect).bind_processor(dialect), bind.key, compiled.params[name], rows[0])
        for name, bind in binds.items()
    }
    if dialect.positional:
        order = [makers[name] for name in compiled.positiontup or ()]
        connection.exec_driver_sql(str(compiled), [tuple([make(row) for make in order]) for row in rows])
    else:
        named = [{name: make(row) for name, make in makers.items()} for row in rows]
        connection.exec_driver_sql(str(compiled), named)


def _maker(
    convert: Callable[[Any], Any] | None, key: str, constant: Any, row: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], Any]:
    """What a parameter is, of a row."""
    if key not in row:
        always = convert(constant) if convert else constant
        return lambda row: always
    if convert is None:
        return lambda row: row[key]
    return lambda row: convert(row[key])
