"""Parts of the ledger's tables: the metadata object, common kinds of columns, partial indexes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, MetaData, Table

from sciagent.store.database.column_types import Id, UtcDateTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

APPEND_ONLY = (
    "evidence",
    "quantity",
    "artifact",
    "decision",
    "spend",
    "cost_observation",
    "campaign_amendment",
    "directive",
    "artifact_removal",
    "law",
)


def table(name: str, *items: sa.schema.SchemaItem) -> Table:
    """Returns a table with the primary key `id`."""
    return Table(name, metadata, Column("id", Id, primary_key=True, autoincrement=True), *items)


def needed(name: str, kind: Any, **more: Any) -> Column[Any]:
    """Returns a column that is never NULL."""
    return Column(name, kind, nullable=False, **more)


def reference(
    name: str, target: str, *, nullable: bool = False, index: bool = False, unique: bool | None = None
) -> Column[int]:
    return Column(name, Id, ForeignKey(target), nullable=nullable, index=index, unique=unique)


def moment(name: str, *, nullable: bool = False) -> Column[datetime]:
    return Column(name, UtcDateTime, nullable=nullable)


def index_of_some(name: str, where: sa.ColumnElement[bool], *columns: Any) -> None:
    """Create an index of only the rows that meet `where`, since queries ask for few of all rows."""
    Index(name, *columns, sqlite_where=where, postgresql_where=where)
