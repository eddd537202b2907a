"""`law`: proposes the seeds first, then those children of a genetic search that a law takes for hits.

The search is that of `evolve`: each turn breeds many children of the best candidates so far. A Gaussian process over
structures, fitted anew to the campaign's own answers for each objective, gives each child its chance to meet all
limits, and the children with the largest chances are proposed. A turn depends on its seed and the ledger alone.

With a past, what other campaigns measured at the same level is the prior of the process. It is left aside, for an
objective, as soon as the own answers are foretold better without it.

Without limits an objective counts as met by what is better than the BEST best values so far.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sciagent.agent.proposers.evolve import Bred, Evolve, GeneticSearch, IsKnown, with_keys
from sciagent.chemistry.subjects.base import Subject
from sciagent.domain.objectives import Direction, Objective, ends_of
from sciagent.domain.proposer_interfaces import MeasuredCandidate, ScriptBench, Turn
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.law.structure_process import (
    Answers,
    ComparedStructures,
    MemoryPrior,
    StructureMemory,
    StructureProcess,
    fitted,
    fitted_memory,
)

FEWEST = 3  # answers from which a law is fitted
FEWEST_PAST = 20  # values of the past from which they are remembered
MOST = 1000  # answers to which it is fitted: half of them the best, half of them the latest
BEST = 8  # values, of which the least is the limit of an objective that has none
LEAST_CHANCE = 1e-300  # smaller chances are equal
DIGITS = 6  # of the logarithm of a chance by which children are ranked, so that no rounding decides


class LawSearch(Evolve):
    """Proposes the seeds of a file, then the children with the largest chance to be hits.

    pool: number of children of a turn that are compared. past: names of campaigns that the law remembers. only_new:
    whether what they have measured is not proposed. The other parameters are those of `Evolve`.
    """

    name = "law"

    def __init__(
        self,
        subject: Subject,
        seeds: Path,
        objectives: Sequence[Objective],
        *,
        pool: int,
        past: Sequence[str] = (),
        only_new: bool = False,
        column: str | None = None,
        limits: Any = None,
        keep: Sequence[str] | None = None,
    ) -> None:
        super().__init__(subject, seeds, column=column, limits=limits, keep=keep)
        self._objectives = objectives
        self._pool = pool
        self._past = past
        self._only_new = only_new
        self._memories: dict[str, StructureMemory] | None = None  # by property; None until the past is read
        self._remembered_texts: dict[str, frozenset[str]] = {}

    def _bred(self, workbench: ScriptBench, turn: Turn, limit: int, is_known: IsKnown) -> Bred | None:
        # only the children that are proposed are looked up, which is dear; and no operator is preferred for what the
        # law has chosen
        search = GeneticSearch(self._edits, limits=self._limits)
        keys = self._tell(search, workbench)
        if not search.population():
            return None
        children = search.ask(max(self._pool, limit), random.Random(turn.seed))
        self._read_past(workbench)
        if self._only_new:
            children = [child for child in children if not self._is_remembered(child.text)]
        scores = self._log_chances(workbench.measured(), [child.text for child in children])
        order = np.argsort(-np.round(scores, DIGITS), kind="stable")
        ranked = (children[place] for place in order)
        unknown = (child for child in ranked if not is_known(child.text))
        return Bred(with_keys(islice(unknown, limit), keys), {})

    def _read_past(self, workbench: ScriptBench) -> None:
        """Makes a memory of each property of which the past has enough values, once."""
        if self._memories is not None:
            return
        self._memories = {}
        for name, values in (workbench.past(self._past) if self._past else {}).items():
            texts = sorted(values)
            self._remembered_texts[name] = frozenset(texts)
            if len(texts) < FEWEST_PAST:
                continue
            compared = ComparedStructures()
            compared.add([self._subject.structure(text) for text in texts])
            self._memories[name] = fitted_memory(compared, np.array([values[text] for text in texts]))

    def _is_remembered(self, text: str) -> bool:
        return any(text in texts for texts in self._remembered_texts.values())

    def _log_chances(self, known: Sequence[MeasuredCandidate], texts: Sequence[str]) -> Array:
        """Returns (n,) logarithms of the chance of candidates to meet all objectives; 0 while too little is known."""
        measured = _best_and_latest(known)
        total = np.zeros(len(texts))
        if not texts:
            return total
        compared = ComparedStructures()
        compared.add([self._subject.structure(text) for text in (*(each.text for each in measured), *texts)])
        asked = np.arange(len(measured), len(measured) + len(texts))
        for objective in self._objectives:
            values = np.array([each.values.get(objective.property, np.nan) for each in measured])
            process = self._process(objective.property, compared, measured, values)
            if process is not None:
                chance = process.chance(asked, *limits_of(objective, values[~np.isnan(values)]))
                total += np.log(np.maximum(chance, LEAST_CHANCE))
        return total

    def _process(
        self, name: str, compared: ComparedStructures, measured: Sequence[MeasuredCandidate], values: Array
    ) -> StructureProcess | None:
        """Returns the process of a property: that of the own answers, or of the past and them if it foretells them
        better; None while too little is known. values: (n,) of the measured candidates, NaN where there is none."""
        memory = (self._memories or {}).get(name)
        rows = np.flatnonzero(~np.isnan(values))
        if memory is None:
            return fitted(compared, Answers(rows, values[rows])) if len(rows) >= FEWEST else None
        remembered = self._remembered_texts[name]
        new = np.array([row for row in rows.tolist() if measured[row].text not in remembered], dtype=np.int64)
        answers = Answers(new, values[new])
        with_past = StructureProcess(MemoryPrior(memory, compared), answers)
        if len(new) < FEWEST or with_past.log_score() >= fitted(compared, answers).log_score():
            return with_past
        return fitted(compared, Answers(rows, values[rows]))


def limits_of(objective: Objective, values: Array) -> tuple[float, float]:
    """Returns the lowest and the highest value that meet an objective; infinite where there is no limit. values: (n,)
    known values."""
    if objective.accept is not None or not len(values):
        return ends_of(objective.accept)
    ascending = np.sort(values)
    if objective.direction is Direction.MAXIMISE:
        return float(ascending[-min(BEST, len(values))]), math.inf
    if objective.direction is Direction.MINIMISE:
        return -math.inf, float(ascending[min(BEST, len(values)) - 1])
    return ends_of(None)


def _best_and_latest(known: Sequence[MeasuredCandidate]) -> list[MeasuredCandidate]:
    """Returns at most MOST candidates with values. known: best first."""
    measured = [each for each in known if each.values]
    if len(measured) <= MOST:
        return measured
    best = measured[: MOST // 2]
    latest = sorted(measured[MOST // 2 :], key=lambda each: -each.seq)[: MOST // 2]
    return [*best, *latest]
