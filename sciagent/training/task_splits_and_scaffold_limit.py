"""Splits tasks into training and test tasks, and limits the number of answers with the same scaffold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

from sciagent.training.hindsight_goals_and_hints import CandidateVerdict

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


def held_out_tasks(tasks: Iterable[str], share: float, held: Iterable[str]) -> frozenset[str]:
    """Returns the hashes of the test tasks: the tasks of `held`, and a share of the other tasks, smallest hashes first.

    All episodes of a task are in one split, whatever their campaign. At least one of the other tasks is for training.
    """
    named = set(held)
    others = sorted(set(tasks) - named)
    n_drawn = round(share * len(others))
    n_most = max(0, len(others) - 1)
    return frozenset(named | set(others[: min(n_drawn, n_most)]))


class ScaffoldLimit:
    """A limit that lets through the first n rows of each scaffold, by task and kind of row, and each candidate once."""

    def __init__(self, n: int, may_repeat_candidates: bool = False) -> None:
        """may_repeat_candidates: whether a candidate may have several rows, as in several pairs."""
        self._n = n
        self._may_repeat_candidates = may_repeat_candidates
        self._kept: set[tuple[str, str, str]] = set()
        """Task, kind of row and key of each candidate that has a row."""
        self._counts: Counter[tuple[str, str, str]] = Counter()
        """Number of rows by task, kind of row and scaffold (or text)."""

    def count_or_refuse(self, task: str, verdict: CandidateVerdict, kind: str = "") -> str | None:
        """Counts a candidate's row and returns None; if the row is to be left out, returns the reason instead."""
        if (task, kind, verdict.key) in self._kept and not self._may_repeat_candidates:
            return "a candidate that another row has"
        if self._counts[task, kind, verdict.scaffold] >= self._n:
            return f"a scaffold that {self._n} rows have"
        self._kept.add((task, kind, verdict.key))
        self._counts[task, kind, verdict.scaffold] += 1
        return None

    def count_text_or_refuse(self, task: str, text: str, kind: str = "") -> str | None:
        """Counts a row without a candidate, by its text, and returns None; if the row is to be left out, returns the
        reason instead."""
        place = task, f"text {kind}", text
        if self._counts[place] >= self._n:
            return f"a text that {self._n} rows have"
        self._counts[place] += 1
        return None
