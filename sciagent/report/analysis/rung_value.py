"""Which rungs earn their keep: what the candidates ahead are worth with a rung, less what they would be without it.

As the law saw it when it was last fitted, at the price of then: payoff less what it pays for. A rung that everyone has
seen already, and one that an objective rests on, are not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import LadderWorth, RungWorth
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.results import laws

LITTLE = 0.01  # of the value


def value_of_rungs(connection: Connection, row: CampaignRow) -> LadderWorth | None:
    """What each rung adds to the value of the candidates ahead; None before there is a law."""
    law = laws.last(connection, row.id)
    value = {} if law is None else law.state.get("value", {})
    return ladder_worth(value, row.spec["goal"]["kind"]) if value else None


def ladder_worth(value: Mapping[str, Any], goal: str) -> LadderWorth:
    """value: as the law's state has it: `worth`, and by rung what that would be `without` it."""
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
