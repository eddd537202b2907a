"""Cost models: a verifier declares what it expects to cost, the ledger teaches by how much it was wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import MAX_AMOUNT, MEASURED, Cost
from sciagent.verification.contract import Verifier

MIN_OBSERVATIONS = 5
UNLEARNT_FACTOR = 3.0  # the 90th percentile is taken as 3x what is declared until there are observations
WINDOW = 200
NOTHING = Cost()


def declared_cost(verifier: Verifier[Any], candidate: Candidate) -> Cost:
    """What the verifier expects to spend. Raises TypeError or ValueError for what is no cost, and whatever else a
    plug-in's `cost` raises."""
    found: object = verifier.cost(candidate)
    if not isinstance(found, Cost):
        raise TypeError(f"a {type(found).__name__}, not a Cost")
    for resource, amount in found.items():
        if amount > MAX_AMOUNT:
            raise ValueError(f"{resource} = {amount:g}; at most {MAX_AMOUNT:g}")
    return found


def cost_or_none(verifier: Verifier[Any], candidate: Candidate) -> Cost | None:
    """The same for whoever must go on: None where the plug-in fails. The job itself asks again, and records the error
    as the candidate's (see `child`)."""
    try:
        return declared_cost(verifier, candidate)
    except (Exception, SystemExit):  # noqa: BLE001  a plug-in may raise anything
        return None


class CostModel:
    """Expected cost and reservation of one rung: the declared cost times the learnt ratio of actual to declared."""

    def __init__(self, ratios: Iterable[float] = ()) -> None:
        self._ratios: deque[float] = deque(ratios, maxlen=WINDOW)
        self._ninetieth: float | None = None  # percentile of the ratios, once it was asked for

    @property
    def learnt(self) -> bool:
        """Whether enough was observed to trust a reservation."""
        return len(self._ratios) >= MIN_OBSERVATIONS

    def observe(self, declared: Mapping[str, float], actual: Mapping[str, float]) -> None:
        if declared.get("core_seconds", 0.0) > 0:
            self._ratios.append(actual.get("core_seconds", 0.0) / declared["core_seconds"])
            self._ninetieth = None

    @property
    def factor(self) -> float:
        """Mean ratio of actual to declared; 1 below five observations."""
        return float(np.mean(self._ratios)) if self.learnt else 1.0

    def expected(self, declared: Cost) -> Cost:
        """The declared cost, what is measured times the mean ratio."""
        return _scaled(declared, self.factor)

    def reservation(self, declared: Cost) -> Cost:
        """The 90th percentile: what must be left in the budget before a job is started."""
        if self._ninetieth is None and self.learnt:
            self._ninetieth = float(np.quantile(self._ratios, 0.9))
        factor = UNLEARNT_FACTOR if self._ninetieth is None else self._ninetieth
        return _scaled(declared, factor)


def unmeasured(declared: Mapping[str, float], counted: Mapping[str, float] | None = None) -> Cost:
    """The part that the host does not measure while a job runs: it is booked as the verifier has counted it, and where
    it counts nothing itself as it was declared."""
    known = declared if counted is None else counted
    return NOTHING if known.keys() <= MEASURED else Cost({r: a for r, a in known.items() if r not in MEASURED})


def _scaled(declared: Mapping[str, float], factor: float) -> Cost:
    """A slot in a laboratory is one slot, however long the jobs take."""
    return Cost({r: a * (factor if r in MEASURED else 1.0) for r, a in declared.items()})
