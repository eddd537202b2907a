"""Alembic environment: the connection is that of `database.migrate_and_back_up`, or `-x url=...` for developers."""

from __future__ import annotations

from alembic import context

from sciagent.store.database.engine import connect, ledger_url
from sciagent.store.database.table_building_blocks import Json, Text, UtcDateTime
from sciagent.store.database.tables import metadata

_RENDERED = {UtcDateTime: "sa.DateTime(timezone=True)", Text: "sa.Text()", Json: "JSON"}


def _render(kind, item, autogen):  # type: ignore[no-untyped-def]
    """Migrations stand on SQLAlchemy alone: a type of ours that is renamed later must not break an old one."""
    return _RENDERED.get(type(item), False) if kind == "type" else False


def run() -> None:
    connection = context.config.attributes.get("connection")
    if connection is None:
        url = context.get_x_argument(as_dictionary=True).get("url", "sciagent.db")
        with connect(ledger_url(url)).begin() as own:
            _migrate(own)
        return
    _migrate(connection)


def _migrate(connection) -> None:  # type: ignore[no-untyped-def]
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
        render_item=_render,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
