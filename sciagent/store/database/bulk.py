"""Insert, update or select many rows with a single statement.

The parameters are put together here, since SQLAlchemy's own `execute` takes twice as long for 512 rows. PostgreSQL gets
all rows as a single JSON parameter: the statement is the same for any number of rows, so the server plans it only once,
and psycopg need not parse a parameter for each value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from sciagent.store.database.table_parts import Json, json_text

NOTHING: Mapping[str, Any] = MappingProxyType({})
_PARAMETER = re.compile(r"%\((\w+)\)s")


def execute_many(
    connection: Connection,
    what: sa.Table | sa.Update,
    rows: Sequence[Mapping[str, Any]],
    alike: Mapping[str, Any] = NOTHING,
) -> int:
    """Insert rows into a table, or update it by rows. Returns the number of rows written.

    rows: mappings with the same names, those of columns or of `bindparam`s. Two rows of an update must not match the
    same row of the table. alike: values for all rows, under names that the rows lack. A column that is left out gets
    the database's default, not Python's. Callers should keep an `Update` object that they use often, since its SQL is
    cached by object.
    """
    if not rows:
        return 0
    names = (*rows[0], *alike)
    if connection.dialect.name == "postgresql":
        if isinstance(what, sa.Table):
            sql = _postgres_insert(what, connection.dialect, names)
            constants = NOTHING
        else:
            sql, constants = _postgres_update(what, connection.dialect, names)
        return connection.exec_driver_sql(sql, {"rows": _json_rows(rows, alike), **constants}).rowcount
    sql, parameters = _compiled(what, connection.dialect, names)
    columns = []
    for key, convert, constant in parameters:
        if key in rows[0]:
            columns.append([convert(row[key]) for row in rows] if convert else [row[key] for row in rows])
        else:
            value = alike.get(key, constant)
            columns.append([convert(value) if convert else value] * len(rows))
    return connection.exec_driver_sql(sql, list(zip(*columns, strict=True))).rowcount


_Parameter = tuple[str, Callable[[Any], Any] | None, Any]  # name, conversion, value unless the rows or `alike` have one


@lru_cache(maxsize=64)
def _compiled(what: sa.Table | sa.Update, dialect: sa.Dialect, names: Sequence[str]) -> tuple[str, list[_Parameter]]:
    """A statement for SQLite, with its parameters in order."""
    statement: Any = sa.insert(what).inline() if isinstance(what, sa.Table) else what
    compiled = statement.compile(dialect=dialect, column_keys=list(names))
    binds = {name: bind for bind, name in compiled.bind_names.items()}
    return str(compiled), [
        (binds[name].key, _conversion(binds[name], dialect), compiled.params[name])
        for name in compiled.positiontup or ()
    ]


def _conversion(bind: sa.BindParameter[Any], dialect: sa.Dialect) -> Callable[[Any], Any] | None:
    return bind.type.dialect_impl(dialect).bind_processor(dialect)


def insert_many(
    connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], alike: Mapping[str, Any] = NOTHING
) -> list[int]:
    """Insert rows; returns their ids, which ascend, in order. On SQLite no other transaction writes meanwhile."""
    if not rows:
        return []
    if connection.dialect.name == "postgresql":
        sql = _postgres_insert(table, connection.dialect, (*rows[0], *alike), returns_ids=True)
        # ids are assigned in the order of the rows
        return sorted(connection.exec_driver_sql(sql, {"rows": _json_rows(rows, alike)}).scalars())
    last = int(connection.execute(sa.select(sa.func.max(table.c.id))).scalar() or 0)
    ids = list(range(last + 1, last + len(rows) + 1))
    execute_many(connection, table, [{"id": id_, **row} for id_, row in zip(ids, rows, strict=True)], alike)
    return ids


@lru_cache(maxsize=64)
def _postgres_insert(table: sa.Table, dialect: sa.Dialect, names: Sequence[str], returns_ids: bool = False) -> str:
    quoted = {name: dialect.identifier_preparer.quote(name) for name in names}
    typed = ", ".join(f"{quoted[name]} {table.c[name].type.compile(dialect)}" for name in names)
    values = ", ".join(_value(quoted[name], table.c[name].type) for name in names)
    records = f"json_to_recordset(%(rows)s::json) AS {{}}({typed})"
    into = f"INSERT INTO {dialect.identifier_preparer.format_table(table)} ({', '.join(quoted.values())})"
    if not returns_ids:
        return f"{into} SELECT {values} FROM {records.format('r')}"
    numbered = f"ROWS FROM ({records.format('')}) WITH ORDINALITY AS r({', '.join(quoted.values())}, nr)"
    return f"{into} SELECT {values} FROM {numbered} ORDER BY r.nr RETURNING id"


@lru_cache(maxsize=64)
def _postgres_update(what: sa.Update, dialect: sa.Dialect, names: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
    """SQLAlchemy's statement with its parameters replaced by columns of the rows, and the values of the others."""
    compiled = what.compile(dialect=dialect, column_keys=list(names))
    binds = {bound: bind for bind, bound in compiled.bind_names.items()}
    typed = ", ".join(f'"{bind.key}" {bind.type.compile(dialect)}' for bind in binds.values() if bind.key in names)

    def column(match: re.Match[str]) -> str:
        bind = binds[match[1]]
        return _value(f'"{bind.key}"', bind.type) if bind.key in names else match[0]

    change, _, where = _PARAMETER.sub(column, str(compiled)).partition(" WHERE ")
    constants = {}
    for name, bind in binds.items():
        if bind.key not in names:
            convert = _conversion(bind, dialect)
            constants[name] = convert(compiled.params[name]) if convert else compiled.params[name]
    return f"{change} FROM json_to_recordset(%(rows)s::json) AS r({typed}) WHERE {where}", constants


def _value(quoted: str, kind: sa.types.TypeEngine[Any]) -> str:
    """A column of the rows as SQL. In a JSON column null is a value; elsewhere it is SQL's NULL."""
    return f"COALESCE(r.{quoted}, 'null')" if isinstance(kind, Json) else f"r.{quoted}"


def _json_rows(rows: Sequence[Mapping[str, Any]], alike: Mapping[str, Any]) -> str:
    return json_text([{**row, **alike} for row in rows])


def among(connection: Connection, column: sa.ColumnElement[Any], values: Sequence[int] | Sequence[str]) -> Any:
    """`column IN values` with a single parameter, since SQLAlchemy compiles a list of parameters at every call."""
    if len(values) == 1:
        return column == values[0]
    if connection.dialect.name == "postgresql":
        return column == sa.any_(sa.literal(list(values), sa.ARRAY(column.type)))
    given = sa.func.json_each(sa.literal(json.dumps(list(values)), sa.Text)).table_valued("value")
    return column.in_(sa.select(given.c.value))


def insert_or_ignore(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows; a row that violates a unique constraint is skipped."""
    if rows:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        connection.execute(dialect.insert(table).on_conflict_do_nothing(), list(rows))


def id_of_hash(connection: Connection, table: sa.Table, content_hash: str, values: Mapping[str, Any]) -> int:
    """Returns the id of the row with this hash, and inserts the row if there is none. Two writers get the same id."""
    query = sa.select(table.c.id).where(table.c.hash == content_hash)
    if (id_ := connection.execute(query).scalar()) is None:
        insert_or_ignore(connection, table, [{"hash": content_hash, **values}])
        id_ = connection.execute(query).scalar_one()
    return int(id_)


def by_resource(amounts: Mapping[str, float], **columns: Any) -> list[dict[str, Any]]:
    """Returns one row per resource. columns: values that all rows share."""
    return [columns | {"resource": resource, "amount": amount} for resource, amount in amounts.items()]
