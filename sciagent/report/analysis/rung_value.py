"""The value of each rung: the value of the open candidates with the rung minus their value without it.

Value is payoff minus cost, by the law and the price of the last fit. Rungs that every candidate has passed, and rungs
that an objective needs, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import LadderWorth, RungWorth
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.results import laws

LITTLE = 0.01  # share of the value below which a rung is called worthless


def value_of_rungs(connection: Connection, row: CampaignRow) -> LadderWorth | None:
    """Returns the value that each rung adds to the open candidates; None before a law is fitted."""
    law = laws.last(connection, row.id)
    value = {} if law is None else law.state.get("value", {})
    return ladder_worth(value, row.spec["goal"]["kind"]) if value else None


def ladder_worth(value: Mapping[str, Any], goal: str) -> LadderWorth:
    """Returns the value of each rung. value: from the law's state, with `worth` and `without` ({rung: worth})."""
    worth = float(value["worth"])
    rungs = tuple(
        RungWorth(rung=name, brings=max(worth - float(without), 0.0)) for name, without in value["without"].items()
    )
    return LadderWorth(worth=worth, rungs=rungs, words=_words(worth, rungs, goal))


def _words(worth: float, rungs: Sequence[RungWorth], goal: str) -> str:
    unit = "hits" if goal == "hits" else "payoff"
    begin = f"the candidates ahead are worth {worth:.3g} {unit} beyond what they will cost"
    if not rungs or worth <= 0:
        return begin
    each = [
        f"{rung.rung} brings {rung.brings:.2g} of it"
        if rung.brings > LITTLE * worth
        else f"{rung.rung} looks worthless for them"
        for rung in rungs
    ]
    return f"{begin}; {', '.join(each)}"
