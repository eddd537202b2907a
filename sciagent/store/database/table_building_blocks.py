"""Parts of tables: the metadata, the functions that define a table, and column types of both databases.

The types are times in UTC, storable texts, and JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer, MetaData, Table
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect

from sciagent.domain.safe_text_and_durations import storable

Id = sa.BigInteger().with_variant(Integer(), "sqlite")


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """A timezone-aware datetime in UTC. SQLite drops the zone, and this type restores it."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def storable_json(value: Any) -> Any:
    """The same value with storable texts. NaN and infinity, which JSON lacks, become texts."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {storable(str(k)): storable_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(v) for v in value]
    return value


def json_text(value: Any) -> str:
    """The value as JSON. Its parts are checked only if it cannot be stored as it is."""
    try:
        text = _ENCODE(value)
    except ValueError:  # NaN or infinity
        return _ENCODE(storable_json(value))
    may_have_unstorable_text = "\\u0000" in text or "\\ud" in text  # a NUL, or half of a surrogate pair
    return _ENCODE(storable_json(value)) if may_have_unstorable_text else text


def _plain(value: Any) -> Any:
    """A JSON value for a type that JSON lacks."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")


_ENCODE = json.JSONEncoder(allow_nan=False, default=_plain).encode


class String(sa.types.TypeDecorator[str]):
    """Text that both databases accept, for a column of at most `length` characters."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Text(String):
    """Text of any length that both databases accept."""

    impl = sa.Text
    cache_ok = True


class Json(sa.types.TypeDecorator[Any]):
    """JSON that both databases accept: JSONB in PostgreSQL."""

    impl = sa.JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[Any]:
        return dialect.type_descriptor(JSONB() if dialect.name == "postgresql" else sa.JSON())

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        return json_text


Key = String(64)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_Items = sa.schema.SchemaItem | Iterable[Column[Any]]


def keyed(name: str, *items: _Items) -> Table:
    """Returns a table; items may be columns, lists of columns, indexes and constraints."""
    flat = list[sa.schema.SchemaItem]()
    for item in items:
        if isinstance(item, sa.schema.SchemaItem):
            flat.append(item)
        else:
            flat += item
    return Table(name, metadata, *flat)


def table(name: str, *items: _Items) -> Table:
    """Returns a table with the primary key `id`."""
    return keyed(name, Column("id", Id, primary_key=True, autoincrement=True), *items)


def needed(kind: Any, *names: str, **more: Any) -> list[Column[Any]]:
    """Returns columns that are never NULL."""
    return [Column(name, kind, nullable=False, **more) for name in names]


def optional(kind: Any, *names: str) -> list[Column[Any]]:
    """Returns columns that may be NULL."""
    return [Column(name, kind) for name in names]


def reference(name: str, target: str, *, nullable: bool = False, **more: Any) -> Column[int]:
    """Returns a column with the id of a row of another table."""
    return Column(name, Id, ForeignKey(f"{target}.id"), nullable=nullable, **more)


def references(*targets: str, **more: Any) -> list[Column[int]]:
    """Returns a column `TARGET_id` for each of these tables, with the id of one of its rows."""
    return [reference(f"{target}_id", target, **more) for target in targets]


def index_of_some(name: str, where: sa.ColumnElement[bool], *columns: Any, **more: Any) -> None:
    """Create an index of only the rows that meet `where`, since queries ask for few of all rows."""
    Index(name, *columns, sqlite_where=where, postgresql_where=where, **more)
