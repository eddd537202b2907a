"""Tool sets in the ledger: the tools as they were offered in a turn, and all that restricted the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence import content_hash
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import id_of_hash


def enter_tool_set(connection: Connection, content: Mapping[str, Any]) -> int:
    """Returns the id of the tool set, and writes its row if it is new."""
    return id_of_hash(connection, t.tool_set, content_hash(dict(content)), {"content": dict(content)})


def tool_set_content(connection: Connection, tool_set_id: int) -> dict[str, Any]:
    return dict(connection.execute(sa.select(t.tool_set.c.content).where(t.tool_set.c.id == tool_set_id)).scalar_one())
