"""The chances of candidates to be hits, by a law that is fitted to a campaign's own answers.

A Gaussian process over structures gives, for each objective, the chance that a candidate meets its limits; the product
over the objectives, as if their errors were independent, is the chance to be a hit. The proposer `law` ranks its
children by it, and the filter of other proposers decides by it, so that the rule is written once.

With a past, what other campaigns measured at the same level is the prior of the process. It is left aside, for an
objective, where it misleads: where own answers that are left out have clearly larger errors with it than without it.
Their densities are not compared: the own answers were chosen for values within the limits, so that a law of them alone
foretells the chosen ones closely, and the others not at all.

An objective without limits counts as met by a value as good as the BEST best own values so far, or as good as the best
quarter of fewer than 32. Before there are own values it plays no part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sciagent.chemistry.subjects.base import Subject
from sciagent.domain.objectives import Direction, Objective, ends_of
from sciagent.domain.proposer_interfaces import MeasuredCandidate, PastValues
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.law.left_out_calibration import CalibratedProcess, WidthCalibration, calibration_from
from sciagent.scheduling.law.structure_process import (
    SAME,
    Answers,
    ComparedStructures,
    MemoryPrior,
    StructureMemory,
    StructureProcess,
    Transform,
    fitted,
    fitted_memory,
)

FEWEST = 3  # answers from which a law is fitted
FEWEST_PAST = 20  # values of the past from which they are remembered
MOST = 1000  # answers to which it is fitted: half of them the best, half of them the latest
BEST = 8  # values, of which the least is the limit of an objective that has none
BEST_SHARE = 0.25  # of the values, if that is less
MISLEADS = 1.25  # ratio of errors with and without a past above which the past is left aside
LEAST_CHANCE = 1e-300  # smaller chances are equal
DIGITS = 6  # of the logarithm of a chance by which candidates are ranked, so that no rounding decides
MOST_ASKED = 512  # structures that are compared beside the measured ones before they are forgotten


class _Aim(NamedTuple):
    """The process of an objective, with the limits of the quantity that meet it."""

    process: StructureProcess | CalibratedProcess
    low: float
    high: float


class _Memory(NamedTuple):
    """The past of a property."""

    process: StructureMemory
    calibration: WidthCalibration | None
    """The widths that a law entry has learnt; None without one."""


class _Fit(NamedTuple):
    """The law of a campaign's present answers."""

    measured: list[MeasuredCandidate]
    compared: ComparedStructures
    """The measured structures first, then those that were asked about."""
    aims: list[_Aim]


class HitChances:
    """The law of a campaign's objectives. It is fitted anew when the answers have changed.

    past: values that other campaigns measured; None: they are not read yet, and `remember` gives them.
    """

    def __init__(self, subject: Subject, objectives: Sequence[Objective]) -> None:
        self._subject = subject
        self._objectives = objectives
        self._memories: dict[str, _Memory] | None = None  # by property; None until the past is read
        self._remembered_texts: dict[str, frozenset[str]] = {}
        self._fit: _Fit | None = None

    @property
    def has_read_past(self) -> bool:
        """Whether `remember` was called."""
        return self._memories is not None

    def remember(self, past: PastValues) -> None:
        """Makes a memory of each property of which the past has enough values."""
        self._memories = {}
        for name, (values, from_entry) in past.items():
            texts = sorted(values)
            self._remembered_texts[name] = frozenset(texts)
            if len(texts) < FEWEST_PAST and from_entry is None:
                continue
            compared = ComparedStructures()
            compared.add([self._subject.structure(text) for text in texts])
            of_texts = np.array([values[text] for text in texts])
            if from_entry is None:
                self._memories[name] = _Memory(fitted_memory(compared, of_texts), None)
                continue
            log_hyper = np.array(from_entry.log_hyper)
            process = StructureMemory(compared, of_texts, Transform(from_entry.transform), log_hyper)
            self._memories[name] = _Memory(process, calibration_from(from_entry.calibration))

    def is_remembered(self, text: str) -> bool:
        """Returns whether the past has a value of a candidate. text: its notation."""
        return any(text in texts for texts in self._remembered_texts.values())

    def is_informed(self, known: Sequence[MeasuredCandidate]) -> bool:
        """Returns whether enough is known for a law of at least one objective. known: best first."""
        return bool(self._fitted(known).aims)

    def log_chances(self, known: Sequence[MeasuredCandidate], texts: Sequence[str]) -> Array:
        """Returns (n,) logarithms of the chance of candidates to meet all objectives; 0 while too little is known.

        known: candidates with values, best first. texts: (n,) notations.
        """
        total = np.zeros(len(texts))
        if not texts:
            return total
        fit = self._fitted(known)
        if not fit.aims:
            return total
        before = len(fit.compared)
        fit.compared.add([self._subject.structure(text) for text in texts])
        asked = np.arange(before, len(fit.compared))
        for aim in fit.aims:
            chance = aim.process.chance(asked, aim.low, aim.high)
            total += np.log(np.maximum(chance, LEAST_CHANCE))
        return np.round(total, DIGITS)

    def has_twin(self, known: Sequence[MeasuredCandidate], texts: Sequence[str]) -> NDArray[np.bool_]:
        """Returns (n,) whether the law cannot tell a candidate from another one that has a value, such as a strained
        crystal or another stereoisomer: it foretells what is measured already.

        known: candidates with values. texts: (n,) notations.
        """
        asked = ComparedStructures()
        asked.add([self._subject.structure(text) for text in texts])
        every = np.arange(len(texts))
        fit = self._fitted(known)
        answered = [(fit.compared, np.arange(len(fit.measured)))]
        for memory in (self._memories or {}).values():
            compared = memory.process.compared
            answered.append((compared, np.arange(len(compared))))
        found = np.zeros(len(texts), dtype=bool)
        for compared, rows in answered:
            found |= compared.similarities(rows, asked, every).max(0, initial=0.0) >= SAME
        found &= ~np.array([self.is_remembered(text) for text in texts], dtype=bool)
        return found

    def _fitted(self, known: Sequence[MeasuredCandidate]) -> _Fit:
        """Returns the law of these answers; that of the last call if they are the same."""
        measured = _best_and_latest(known)
        last = self._fit
        if last is not None and last.measured == measured and len(last.compared) <= len(measured) + MOST_ASKED:
            return last
        compared = ComparedStructures()
        compared.add([self._subject.structure(each.text) for each in measured])
        aims = []
        for objective in self._objectives:
            values = np.array([each.values.get(objective.property, np.nan) for each in measured])
            if objective.accept is None and np.count_nonzero(~np.isnan(values)) < FEWEST:
                continue
            process = self._process(objective.property, compared, measured, values)
            if process is not None:
                aims.append(_Aim(process, *limits_of(objective, values[~np.isnan(values)])))
        self._fit = _Fit(measured, compared, aims)
        return self._fit

    def _process(
        self, name: str, compared: ComparedStructures, measured: Sequence[MeasuredCandidate], values: Array
    ) -> StructureProcess | CalibratedProcess | None:
        """Returns the process of a property; None while too little is known.

        It is that of the past and the own answers, or of these alone if there is no past, or if it misleads. values:
        (n,) of the measured candidates, NaN where there is none.
        """
        memory = (self._memories or {}).get(name)
        rows = np.flatnonzero(~np.isnan(values))
        if memory is None:
            return fitted(compared, Answers(rows, values[rows])) if len(rows) >= FEWEST else None
        remembered = self._remembered_texts[name]
        by_arrival = sorted(rows.tolist(), key=lambda row: measured[row].seq)
        new = np.array([row for row in by_arrival if measured[row].text not in remembered], dtype=np.int64)
        answers = Answers(new, values[new])
        if memory.calibration is None:
            with_past = StructureProcess(MemoryPrior(memory.process, compared), answers)
            chosen: StructureProcess | CalibratedProcess = with_past
        else:
            chosen = CalibratedProcess(memory.process, memory.calibration, compared, answers)
            with_past = chosen.process
        if len(new) < FEWEST or with_past.mean_error() <= MISLEADS * fitted(compared, answers).mean_error():
            return chosen
        return fitted(compared, Answers(rows, values[rows]))


def limits_of(objective: Objective, values: Array) -> tuple[float, float]:
    """Returns the lowest and the highest value that meet an objective; infinite where there is no limit. values: (n,)
    known values."""
    if objective.accept is not None or not len(values):
        return ends_of(objective.accept)
    ascending = np.sort(values)
    n_better = min(BEST, math.ceil(len(values) * BEST_SHARE))
    if objective.direction is Direction.MAXIMISE:
        return float(ascending[-n_better]), math.inf
    if objective.direction is Direction.MINIMISE:
        return -math.inf, float(ascending[n_better - 1])
    return ends_of(None)


def _best_and_latest(known: Sequence[MeasuredCandidate]) -> list[MeasuredCandidate]:
    """Returns at most MOST candidates with values. known: best first."""
    measured = [each for each in known if each.values]
    if len(measured) <= MOST:
        return measured
    best = measured[: MOST // 2]
    latest = sorted(measured[MOST // 2 :], key=lambda each: -each.seq)[: MOST // 2]
    return [*best, *latest]
