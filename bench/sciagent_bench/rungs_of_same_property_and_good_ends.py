"""States what is known of rungs before any answer: which ones measure the same property, and which end is good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sciagent.scheduling.aims_and_payoff import Aim

SIGNS = {"max": 1, "min": -1}


@dataclass(frozen=True)
class KnownRungs:
    """A campaign knows these facts of its rungs, by name, before any answer.

    same: rungs that measure the property of the last one at another level. alike: rungs that all measure one other
    property. passes: rungs whose gate has one limit, each with the end that passes, min or max."""

    same: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    passes: tuple[tuple[str, str], ...] = ()

    def aim(self, names: Sequence[str], columns: int, low: float, high: float) -> Aim:
        """Returns the aim of a hit between these limits. names: of the rungs that are there, if they have names."""
        place = {name: at for at, name in enumerate(names)}
        same, alike = ([place[name] for name in group if name in place] for group in (self.same, self.alike))
        passes = tuple((place[name], SIGNS[end]) for name, end in self.passes if name in place)
        groups = tuple(tuple(sorted(group)) for group in ([*same, columns - 1], alike) if len(group) > 1)
        return Aim(tuple(range(columns)), low, high, alike=groups, passes=passes)


NOTHING = KnownRungs()
