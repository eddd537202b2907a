"""Changes of a case before its replay: fewer candidates, a worthless rung, or one rung less."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sciagent.errors import UsageError
from sciagent_bench.replay_cases import Case, Reordered
from sciagent_bench.replay_once import Truth
from sciagent_bench.run_trials import Source


def drawn(case: Case, n: int, top: float, rng: np.random.Generator) -> Case:
    """Returns a case of n random candidates, of which the fraction `top` are hits. All of them if there are fewer."""
    of = rng.permutation(len(case.truth.hit))[:n]
    scores = case.truth.scores[of]
    value = case.sign * scores[:, -1]
    hit = (value >= np.nanquantile(value, 1 - top)) & (value > np.nanmin(value))  # of a yes or no, never all
    truth = Truth(scores, case.truth.costs[of], hit, case.truth.rungs)
    similarity = None if case.similarity is None else Reordered(case.similarity, of)
    return Case.of(truth, case.sign, similarity, case.names, case.known)


def with_noise(case: Case, share: float, rng: np.random.Generator) -> Case:
    """Returns the case with a worthless rung: the terminal answers in random order. share: its cost, as a fraction of
    the terminal rung's. It stands above the rungs that cost less."""
    scores = case.truth.scores
    costs = case.truth.costs
    added = share * costs[:, -1]
    place = int((np.median(costs[:, :-1], axis=0) <= np.median(added)).sum())
    names = (*case.names[:place], "noise", *case.names[place:])
    noise = rng.permutation(scores[:, -1])
    truth = Truth(np.insert(scores, place, noise, 1), np.insert(costs, place, added, 1), case.truth.hit)
    return replace(case, truth=truth, names=names)


def without(case: Case, name: str) -> Case:
    """Returns the case without the rung of this name, which is not the terminal one."""
    if name not in case.names[:-1]:
        raise UsageError(f'no rung "{name}" below the terminal one; there are: {", ".join(case.names[:-1]) or "none"}')
    place = case.names.index(name)
    truth = case.truth
    left = Truth(np.delete(truth.scores, place, 1), np.delete(truth.costs, place, 1), truth.hit)
    return replace(case, truth=left, names=(*case.names[:place], *case.names[place + 1 :]))


@dataclass(frozen=True)
class Changed:
    """A source of cases whose candidates or rungs are changed, each seed in another way."""

    source: Source
    """The cases before the changes."""
    draw: int = 0
    """Number of candidates to draw; 0: all."""
    top: float = 0.01
    """Share of the drawn candidates that are hits."""
    noise: float | None = None
    """Cost of a worthless rung, as a fraction of the terminal rung's; None: no such rung."""
    dropped: tuple[str, ...] = ()
    """Names of the rungs that are left out."""

    def __call__(self, seed: int) -> Case:
        case = self.source(seed)
        if self.draw:
            case = drawn(case, self.draw, self.top, np.random.default_rng([seed, 2]))
        if self.noise is not None:
            case = with_noise(case, self.noise, np.random.default_rng([seed, 3]))
        for name in self.dropped:
            case = without(case, name)
        return case
