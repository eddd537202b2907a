"""Which rungs earn their keep: what the candidates ahead are worth with a rung, less what they would be without it.

As the law saw it when it was last fitted, at the price of then: payoff less what it pays for. A rung that everyone has
seen already, and one that an objective rests on, are not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.results import laws

LITTLE = 0.01  # of the value


def earning(connection: Connection, row: CampaignRow) -> dict[str, Any] | None:
    """The JSON of `value`: worth, in hits or payoff; rungs: what each brings of it. None before there is a law."""
    law = laws.last(connection, row.id)
    value = {} if law is None else law.state.get("value", {})
    return told(value, row.spec["goal"]["kind"]) if value else None


def told(value: Mapping[str, Any], goal: str) -> dict[str, Any]:
    """value: `worth`, and by rung what it would be `without` it."""
    worth = float(value["worth"])
    rungs = [{"rung": name, "brings": max(worth - float(one), 0.0)} for name, one in value["without"].items()]
    return {"worth": worth, "rungs": rungs, "words": _words(worth, rungs, goal)}


def _words(worth: float, rungs: list[dict[str, Any]], goal: str) -> str:
    unit = "hits" if goal == "hits" else "payoff"
    begin = f"the candidates ahead are worth {worth:.3g} {unit} beyond what they will cost"
    if not rungs or worth <= 0:
        return begin
    each = [
        f"{one['rung']} brings {one['brings']:.2g} of it"
        if one["brings"] > LITTLE * worth
        else f"{one['rung']} looks worthless for them"
        for one in rungs
    ]
    return f"{begin}; {', '.join(each)}"
