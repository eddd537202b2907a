"""Many rows by one statement, or of one: parameters are put together here. SQLAlchemy's own `execute` takes twice
as long for 512 rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

CHUNK = 5000  # rows or values a statement
NOTHING: Mapping[str, Any] = MappingProxyType({})


def execute_many(
    connection: Connection, what: sa.Table | sa.Update, rows: Sequence[Mapping[str, Any]],
    alike: Mapping[str, Any] = NOTHING,
) -> None:  # fmt: skip
    """Insert rows into a table, or update one by rows. rows: each with the same names, those of columns or of
    `bindparam`s. alike: what is the same in all of them, and not in the rows. A column that is left out gets the
    database's default, not one of Python's. An update that is asked for again and again is kept by who asks: how it is
    written is remembered by the object."""
    if not rows:
        return
    plan = _plan(what, connection.dialect, (*rows[0], *alike))
    columns = [_column(parameter, rows, alike) for parameter in plan.parameters]
    if plan.named and isinstance(what, sa.Table):
        _insert_in_blocks(connection, plan, list(zip(*columns, strict=True)))
    elif plan.named:
        named = [dict(zip(plan.named, row, strict=True)) for row in zip(*columns, strict=True)]
        connection.exec_driver_sql(plan.sql, named)
    else:
        connection.exec_driver_sql(plan.sql, list(zip(*columns, strict=True)))


BLOCKS = (128, 32, 8, 1)  # rows of one INSERT; few sizes, so that PostgreSQL has seen each before


def _insert_in_blocks(connection: Connection, plan: _Plan, rows: Sequence[tuple[Any, ...]]) -> None:
    """Many rows by one statement: psycopg sends a message for each row of an `executemany`."""
    start = 0
    for size in BLOCKS:
        while len(rows) - start >= size:
            some = rows[start : start + size]
            given = {
                f"{name}_{i}": value for i, row in enumerate(some) for name, value in zip(plan.named, row, strict=True)
            }
            connection.exec_driver_sql(_block(plan, size), given)
            start += size


@lru_cache(maxsize=256)
def _block(plan: _Plan, rows: int) -> str:
    """The statement with its list of values so many times over."""
    head, _, values = plan.sql.partition(" VALUES ")
    one = [_placeholders(values, i) for i in range(rows)]
    return f"{head} VALUES {', '.join(one)}"


def _placeholders(values: str, number: int) -> str:
    return re.sub(r"%\((\w+)\)s", rf"%(\g<1>_{number})s", values)


@dataclass(frozen=True)
class _Parameter:
    """Of a statement. key: of the rows; where they have none, `constant` is that of all of them, as it is written."""

    key: str | None
    convert: Callable[[Any], Any] | None
    constant: Any


@dataclass(frozen=True)
class _Plan:
    """named: what the driver calls the parameters, where it does not go by their order."""

    sql: str
    parameters: tuple[_Parameter, ...]
    named: tuple[str, ...]


@lru_cache(maxsize=64)
def _plan(what: sa.Table | sa.Update, dialect: sa.Dialect, names: tuple[str, ...]) -> _Plan:
    # inline: else PostgreSQL is asked for the ids
    statement: Any = sa.insert(what).inline() if isinstance(what, sa.Table) else what
    compiled = statement.compile(dialect=dialect, column_keys=list(names))
    binds = {name: bind for bind, name in compiled.bind_names.items()}
    order = tuple(compiled.positiontup or ()) if dialect.positional else tuple(binds)
    parameters = []
    for name in order:
        convert = binds[name].type.dialect_impl(dialect).bind_processor(dialect)
        if (key := binds[name].key) in names:
            parameters.append(_Parameter(key, convert, None))
        else:
            constant = compiled.params[name]
            parameters.append(_Parameter(None, None, convert(constant) if convert else constant))
    return _Plan(str(compiled), tuple(parameters), () if dialect.positional else order)


def _column(parameter: _Parameter, rows: Sequence[Mapping[str, Any]], alike: Mapping[str, Any]) -> list[Any]:
    """A parameter of each row."""
    key, convert = parameter.key, parameter.convert
    if key is None:
        return [parameter.constant] * len(rows)
    if key in alike:
        return [convert(alike[key]) if convert else alike[key]] * len(rows)
    if convert is None:
        return [row[key] for row in rows]
    found, before, made = [], object(), None
    for row in rows:
        value = row[key]
        if value is not before:  # a time is that of many rows
            before, made = value, convert(value)
        found.append(made)
    return found


def take_ids(connection: Connection, table: sa.Table, n: int) -> list[int]:
    """Ids for n rows that will be inserted with them in this transaction: so nobody has to ask for them afterwards. In
    SQLite a transaction that writes is the only one."""
    if connection.dialect.name == "postgresql":
        each = sa.select(sa.func.nextval(sa.func.pg_get_serial_sequence(table.name, "id")))
        return [int(id_) for id_ in connection.execute(each.select_from(sa.func.generate_series(1, n))).scalars()]
    last = int(connection.execute(sa.select(sa.func.max(table.c.id))).scalar() or 0)
    return list(range(last + 1, last + n + 1))


def among(connection: Connection, column: sa.ColumnElement[Any], values: Sequence[int] | Sequence[str]) -> Any:
    """`column IN values` by one parameter, however many there are: SQLAlchemy writes an `IN` anew, name by name, each
    time it is asked."""
    if connection.dialect.name == "postgresql":
        return column == sa.any_(sa.literal(list(values), sa.ARRAY(column.type)))
    given = sa.func.json_each(sa.literal(json.dumps(list(values)), sa.Text)).table_valued("value")
    return column.in_(sa.select(given.c.value))


def by_resource(amounts: Mapping[str, float], **columns: Any) -> list[dict[str, Any]]:
    """A row for each resource."""
    return [columns | {"resource": resource, "amount": amount} for resource, amount in amounts.items()]
