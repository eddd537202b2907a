"""Writes many rows to PostgreSQL in a single JSON parameter.

The statement is the same for any number of rows, so the server plans it only once. With a parameter for each value,
psycopg would take longer to parse the statement than the server to execute it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database.column_types import Json, storable_json

_PARAMETER = re.compile(r"%\((\w+)\)s")


Rows = Sequence[Mapping[str, Any]]


def write(connection: Connection, what: sa.Table | sa.Update, rows: Rows, alike: Mapping[str, Any]) -> int:
    """Insert rows into a table, or update it by rows; returns the number of rows written.

    rows: mappings with the same names; no two rows of an update may match the same table row. alike: values of all.
    """
    plan = _plan(what, connection.dialect, (*rows[0], *alike), ids=False)
    return connection.exec_driver_sql(plan.sql, {"rows": _text(rows, alike), **plan.constants}).rowcount


def insert(connection: Connection, table: sa.Table, rows: Rows, alike: Mapping[str, Any]) -> list[int]:
    """Insert rows into a table that generates ids; returns the ids in order."""
    plan = _plan(table, connection.dialect, (*rows[0], *alike), ids=True)
    ids = connection.exec_driver_sql(plan.sql, {"rows": _text(rows, alike)}).scalars()
    return sorted(ids)  # ids were assigned in the order of the rows


class _Plan(NamedTuple):
    """A statement with the parameters that are equal for all rows."""

    sql: str
    constants: Mapping[str, Any]


@lru_cache(maxsize=128)
def _plan(what: sa.Table | sa.Update, dialect: sa.Dialect, names: tuple[str, ...], ids: bool) -> _Plan:
    return _insert(what, dialect, names, ids) if isinstance(what, sa.Table) else _update(what, dialect, names)


def _insert(table: sa.Table, dialect: sa.Dialect, names: tuple[str, ...], ids: bool) -> _Plan:
    quoted = {name: dialect.identifier_preparer.quote(name) for name in names}
    typed = ", ".join(f"{quoted[name]} {table.c[name].type.compile(dialect)}" for name in names)
    values = ", ".join(_value(quoted[name], table.c[name].type) for name in names)
    records = f"json_to_recordset(%(rows)s::json) AS {{}}({typed})"
    into = f"INSERT INTO {dialect.identifier_preparer.format_table(table)} ({', '.join(quoted.values())})"
    if not ids:
        return _Plan(f"{into} SELECT {values} FROM {records.format('r')}", {})
    numbered = f"ROWS FROM ({records.format('')}) WITH ORDINALITY AS r({', '.join(quoted.values())}, nr)"
    return _Plan(f"{into} SELECT {values} FROM {numbered} ORDER BY r.nr RETURNING id", {})


def _update(what: sa.Update, dialect: sa.Dialect, names: tuple[str, ...]) -> _Plan:
    """Returns SQLAlchemy's statement with its parameters replaced by columns of the rows."""
    compiled = what.compile(dialect=dialect, column_keys=list(names))
    binds = {bound: bind for bind, bound in compiled.bind_names.items() if bind.key in names}
    typed = ", ".join(f'"{bind.key}" {bind.type.compile(dialect)}' for bind in binds.values())

    def column(match: re.Match[str]) -> str:
        bind = binds.get(match[1])
        return match[0] if bind is None else _value(f'"{bind.key}"', bind.type)

    change, _, where = _PARAMETER.sub(column, str(compiled)).partition(" WHERE ")
    constants = {}
    for bind, name in compiled.bind_names.items():
        if name not in binds:
            convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
            constants[name] = convert(compiled.params[name]) if convert else compiled.params[name]
    return _Plan(f"{change} FROM json_to_recordset(%(rows)s::json) AS r({typed}) WHERE {where}", constants)


def _value(quoted: str, kind: sa.types.TypeEngine[Any]) -> str:
    """A column of the rows as SQL. In a JSON column null is a value; elsewhere it is SQL's NULL."""
    return f"COALESCE(r.{quoted}, 'null')" if isinstance(kind, Json) else f"r.{quoted}"


def _plain(value: Any) -> Any:
    """A JSON value for a type that JSON lacks."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")


_ENCODE = json.JSONEncoder(allow_nan=False, default=_plain).encode


def _text(rows: Rows, alike: Mapping[str, Any]) -> str:
    """The rows as JSON. Their parts are checked only if a value cannot be stored as it is."""
    whole = [{**row, **alike} for row in rows]
    try:
        text = _ENCODE(whole)
    except ValueError:  # NaN or infinity
        text = ""
    return _ENCODE(storable_json(whole)) if not text or "\\u0000" in text or "\\ud" in text else text
