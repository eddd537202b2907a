"""The metadata of the ledger's tables, and the functions that define a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, MetaData, Table

from sciagent.store.database.column_types import Id

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
    flat = [part for item in items for part in ([item] if isinstance(item, sa.schema.SchemaItem) else item)]
    return Table(name, metadata, *flat)


def table(name: str, *items: _Items) -> Table:
    """Returns a table with the primary key `id`."""
    return keyed(name, Column("id", Id, primary_key=True, autoincrement=True), *items)


def needed(kind: Any, *names: str, **more: Any) -> list[Column[Any]]:
    """Returns columns that are never NULL."""
    return [Column(name, kind, nullable=False, **more) for name in names]


def optional(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


def reference(name: str, target: str, *, nullable: bool = False, **more: Any) -> Column[int]:
    """Returns a column with the id of a row of another table."""
    return Column(name, Id, ForeignKey(f"{target}.id"), nullable=nullable, **more)


def references(*targets: str, **more: Any) -> list[Column[int]]:
    return [reference(f"{target}_id", target, **more) for target in targets]


def index_of_some(name: str, where: sa.ColumnElement[bool], *columns: Any, **more: Any) -> None:
    """Create an index of only the rows that meet `where`, since queries ask for few of all rows."""
    Index(name, *columns, sqlite_where=where, postgresql_where=where, **more)
