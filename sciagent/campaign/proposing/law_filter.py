"""The filter of a proposer: of its proposals, those with the largest chance to be hits go on up the ladder.

The chance is that of `HitChances`, from what proposers are shown of the campaign and of the campaigns that the filter
remembers. Before the law knows enough, nothing is dropped.

Proposals that come together are compared with each other: of n the best n * keep / of go on, at least one. A proposer
that acts one proposal at a time is compared with the last WINDOW chances that were said of its proposals: one goes on
if fewer than keep / of of them are better. Equal chances share the places by lot.

A part of the proposals, `audit`, is not judged: each has a lot, and goes on with the probability keep / of. What the
law drops wrongly can be estimated from them. Lots depend on the campaign's seed and the candidate alone, so that a
campaign that was stopped goes on as if it had not been, and that a candidate gains nothing by being proposed again.

The propensity of a proposal is the probability with which it went on, given the chances and the lots of the others:

    propensity = (1 - audit) p + audit * keep / of;  p: 1 if it is among the best, a share for equal chances, else 0
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.agent.proposers.hit_chances import HitChances
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.file.proposers import FilterSpec
from sciagent.chemistry.subjects.base import Subject
from sciagent.domain.objectives import Objective
from sciagent.domain.proposer_interfaces import MeasuredCandidate, PastValues
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.audit_of_dropped import lots
from sciagent.store.campaign_state import proposer_trajectories

WINDOW = 64  # chances with which the next proposal of a proposer that acts one at a time is compared
MOST_ASKED = 10_000  # proposals of a turn that a script is asked for
AUDITED = "audit"  # names of the lots of a candidate: whether it is judged, and whether it goes on
PLACED = "place"


class FilterAction(StrEnum):
    """The action of the filter on a proposal."""

    KEEP = "keep"  # it goes on for its chance
    AUDIT = "audit"  # it was not judged, and goes on by lot
    DROP = "drop"
    DROP_BY_LOT = "drop by lot"  # it was not judged, and does not go on by lot
    REMEMBERED = "remembered"  # dropped, since only what the remembered campaigns have not measured goes on


@dataclass(frozen=True)
class FilterDecision:
    """A decision of the filter on one proposal."""

    action: FilterAction
    log_chance: float
    """Natural logarithm of the chance to be a hit."""
    rank: int | None
    """1 if no compared proposal has a larger chance; None if it was not compared."""
    compared: int
    """Number of proposals that were compared, with this one."""
    propensity: float
    """Probability with which it went on, given the chances and the lots of the others."""

    @property
    def chance(self) -> float:
        """Chance to be a hit."""
        return math.exp(self.log_chance)

    @property
    def drops(self) -> bool:
        """Whether the proposal does not go on."""
        return self.action in (FilterAction.DROP, FilterAction.DROP_BY_LOT, FilterAction.REMEMBERED)

    def as_json(self) -> Mapping[str, object]:
        """Returns the decision as the ledger keeps it."""
        return {**vars(self), "action": str(self.action)}

    def why_dropped(self, share: str) -> str:
        """Returns why the proposal was dropped. share: proposals that go on, such as `1 of 16`."""
        if self.action is FilterAction.REMEMBERED:
            return "a campaign that the filter remembers has measured it, and only new ones go on"
        if self.action is FilterAction.DROP_BY_LOT:
            return f"it was drawn for the audit of the filter, and {share} go on by lot, whatever their chance"
        return f"the law gives it a chance of {self.chance:.2g} to be a hit, below the best {share}"


class FilterBench(Protocol):
    """The campaign as the filter sees it: as proposers do."""

    def measured(self) -> list[MeasuredCandidate]: ...
    def past(self, campaigns: Sequence[str], law: str | None) -> PastValues: ...


class LawFilter:
    """The filter of one proposer. It is used in the process that writes the proposals."""

    def __init__(
        self,
        spec: FilterSpec,
        subject: Subject,
        objectives: Sequence[Objective],
        seed: int,
        recent: Sequence[float] | None = None,
    ) -> None:
        """seed: of the campaign. recent: logarithms of the last chances, oldest first, of a proposer that acts one
        proposal at a time; None: its proposals come together."""
        self._seed = seed
        self._spec = spec
        self._chances = HitChances(subject, objectives)
        self._recent = None if recent is None else deque(recent, WINDOW)
        self.core_seconds = 0.0
        """Computing time so far, in core-seconds."""

    @property
    def share_text(self) -> str:
        """The proposals that go on, such as `1 of 16`."""
        of_which = "" if self._recent is None else " so far"
        return f"{self._spec.keep} of {self._spec.of}{of_which}"

    def wanted(self, bench: FilterBench, n: int) -> int:
        """Returns the number of proposals of which about n go on."""
        if not self._is_informed(bench, bench.measured()):
            return n
        return max(n, min(round(n / self._spec.share), MOST_ASKED))

    def most_dropped(self, n: int) -> int:
        """Returns the number of proposals that are dropped while about n go on."""
        return min(math.ceil(n / self._spec.share), MOST_ASKED) - n if n > 0 else 0

    def decide(self, bench: FilterBench, proposed: Mapping[str, str]) -> dict[str, FilterDecision]:
        """Returns a decision for each proposal, by key; none while the law knows too little to drop any.

        proposed: notations of different candidates, by key, in the order in which they were proposed.
        """
        began = time.thread_time()
        try:
            return self._decisions(bench, proposed)
        finally:
            self.core_seconds += time.thread_time() - began

    def _decisions(self, bench: FilterBench, proposed: Mapping[str, str]) -> dict[str, FilterDecision]:
        known = bench.measured() if proposed else []
        if not proposed or not self._is_informed(bench, known):
            return {}
        keys = list(proposed)
        scores = self._chances.log_chances(known, list(proposed.values()))
        audited = lots(self._seed, [f"{AUDITED}:{key}" for key in keys]) < self._spec.audit
        places = lots(self._seed, [f"{PLACED}:{key}" for key in keys])
        is_old = np.zeros(len(keys), dtype=bool)
        if self._spec.only_new:
            is_old = np.array([self._chances.is_remembered(proposed[key]) for key in keys])
        decisions: dict[str, FilterDecision] = {}
        for row in np.flatnonzero(is_old):
            decisions[keys[row]] = FilterDecision(FilterAction.REMEMBERED, float(scores[row]), None, 0, 0.0)
        judged = np.flatnonzero(~is_old)
        if self._recent is None:
            decided = self._of_batch(scores[judged], audited[judged], places[judged])
        else:
            decided = []
            for row in judged:
                decided.append(self._of_one(float(scores[row]), bool(audited[row]), float(places[row]), self._recent))
        decisions.update(zip((keys[row] for row in judged), decided, strict=True))
        return decisions

    def _is_informed(self, bench: FilterBench, known: Sequence[MeasuredCandidate]) -> bool:
        if not self._chances.has_read_past:
            self._chances.remember(bench.past(self._spec.past, self._spec.law))
        return self._chances.is_informed(known)

    def _of_one(self, score: float, is_audited: bool, place: float, recent: deque[float]) -> FilterDecision:
        """Returns the decision on one proposal beside the recent ones. place: its lot."""
        n_better = sum(other > score for other in recent)
        n_equal = sum(other == score for other in recent)
        compared = len(recent) + 1
        n_places = max(1.0, compared * self._spec.share)
        p = min(max((n_places - n_better) / (n_equal + 1), 0.0), 1.0)
        recent.append(score)
        passes = place < (self._spec.share if is_audited else p)
        return self._decision(score, n_better + 1, compared, is_audited, passes=passes, p=p)

    def _of_batch(self, scores: Array, audited: NDArray[np.bool_], places: Array) -> list[FilterDecision]:
        """Returns the decisions on proposals that came together; of equal chances the smaller lot is better.

        scores: (n,) logarithms of chances. audited: (n,) whether each is not judged. places: (n,) lots.
        """
        share = self._spec.share
        n = len(scores)
        n_places = math.ceil(round(n * share, 9))
        order = np.lexsort((places, -scores))
        passes_by_lot = audited & (places < share)
        n_by_lot = int(passes_by_lot.sum())
        is_judged = ~audited
        decisions: dict[int, FilterDecision] = {}
        n_judged = 0  # judged proposals with a larger chance, or an equal one and a smaller lot
        for rank, row in enumerate(order.tolist(), start=1):
            # of the others: a proposal leaves its own lot out, so that the propensity is the same whatever it is
            n_left = n_places - n_by_lot + int(passes_by_lot[row])
            n_better = np.count_nonzero(is_judged & (scores > scores[row]))
            n_equal = np.count_nonzero(is_judged & (scores == scores[row])) + int(audited[row])
            p = min(max((n_left - n_better) / n_equal, 0.0), 1.0)
            passes = bool(passes_by_lot[row]) if audited[row] else n_judged < n_left
            n_judged += int(is_judged[row])
            decisions[row] = self._decision(float(scores[row]), rank, n, bool(audited[row]), passes=passes, p=p)
        return [decisions[row] for row in range(n)]

    def _decision(
        self, score: float, rank: int, compared: int, is_audited: bool, *, passes: bool, p: float
    ) -> FilterDecision:
        audit = self._spec.audit
        share = self._spec.share
        if is_audited:
            action = FilterAction.AUDIT if passes else FilterAction.DROP_BY_LOT
        else:
            action = FilterAction.KEEP if passes else FilterAction.DROP
        return FilterDecision(action, score, rank, compared, (1 - audit) * p + audit * share)


def filter_of_batches(built: Built, spec: FilterSpec | None) -> LawFilter | None:
    """Returns the filter of a proposer whose proposals come together; None without one."""
    return None if spec is None else LawFilter(spec, built.subject, built.objectives, built.spec.seed)


def filter_of_one_by_one(
    connection: Connection, built: Built, spec: FilterSpec | None, proposer: str
) -> LawFilter | None:
    """Returns the filter of a proposer that acts one proposal at a time, with its last chances; None without one.

    proposer: its name in the ledger.
    """
    if spec is None:
        return None
    recent = proposer_trajectories.latest_log_chances(connection, built.row.id, proposer, WINDOW)
    return LawFilter(spec, built.subject, built.objectives, built.spec.seed, recent)
