"""Splits tasks into training and test tasks, and limits the number of answers with the same scaffold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

from sciagent.training.hindsight import CandidateVerdict

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


def held_out_tasks(tasks: Iterable[str], share: float, held: Iterable[str]) -> frozenset[str]:
    """Returns the hashes of the tasks for testing: those `held`, and a share of the others, smallest hashes first.

    All episodes of a task are in one split, whatever their campaign. A single task is for training.
    """
    known = set(tasks)
    named = set(held)
    others = sorted(known - named)
    n = round(share * len(others)) if len(others) > 1 else 0
    return frozenset(named | set(others[: min(n, len(others) - 1)] if n else ()))


class ScaffoldLimit:
    """Keeps the first n rows of each scaffold, by task and kind of row, and each candidate once.

    repeats: whether a candidate may have several rows, as in pairs with several others.
    """

    def __init__(self, n: int, repeats: bool = False) -> None:
        self._n = n
        self._repeats = repeats
        self._kept: set[tuple[str, str, str]] = set()
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def takes(self, task: str, verdict: CandidateVerdict, kind: str = "") -> str | None:
        """Counts a candidate that is to be kept; returns None, or why it is left out."""
        if (task, kind, verdict.key) in self._kept and not self._repeats:
            return "a candidate that another row has"
        if self._counts[task, kind, verdict.scaffold] >= self._n:
            return f"a scaffold that {self._n} rows have"
        self._kept.add((task, kind, verdict.key))
        self._counts[task, kind, verdict.scaffold] += 1
        return None

    def takes_text(self, task: str, text: str, kind: str = "") -> str | None:
        """Counts a row without a candidate, by its text; returns None, or why it is left out."""
        place = task, f"text {kind}", text
        if self._counts[place] >= self._n:
            return f"a text that {self._n} rows have"
        self._counts[place] += 1
        return None
