"""Schedulers by name, and all that one of them may know before it has paid for anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sciagent.scheduling.law.chain import Similarity
from sciagent.scheduling.replay.simulate import Buyer
from sciagent.scheduling.rules.priced import Priced


@dataclass(frozen=True)
class Facts:
    """threshold: of a hit, in the terminal rung's unit; sign: 1 where hits lie above it, -1 below. similarity: of the
    candidates by place. budget: in units of cost. rungs: how many, the terminal one included."""

    threshold: float
    sign: int
    similarity: Similarity | None
    seed: int
    budget: float
    rungs: int


Factory = Callable[[Facts], Buyer]


def priced(facts: Facts) -> Buyer:
    return Priced(facts.threshold, facts.sign, facts.similarity, facts.seed, facts.budget)


SCHEDULERS: dict[str, Factory] = {
    "priced": priced,
}
