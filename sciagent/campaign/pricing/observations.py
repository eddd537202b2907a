"""Which answers of a campaign the law observes: one column a property of a rung that may tell of an objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sciagent.domain.campaigns.ladder import PaidIndex, Position
from sciagent.domain.objectives import Objective, Window
from sciagent.scheduling.arrays import Array

if TYPE_CHECKING:
    from sciagent.campaign.core.build import BuiltLadder, BuiltRung
    from sciagent.scheduling.aims import Aims
    from sciagent.scheduling.law.hints import Hint


KNOWN = PaidIndex(-1)  # stands for the rungs that run at once: what they said is known of every candidate
MOST = 3  # properties of one rung that tell of an objective which it does not measure itself
WIDE = 5  # a gate so many times wider than the objective's window says nothing of where that lies
GATE_SHARE = 0.25  # of a gate's one edge: how far off it is taken to lie
TELLS_LITTLE = frozenset({"total_energy"})  # grows with the size of a molecule and with little else


@dataclass(frozen=True)
class ObservedColumn:
    """A property of one rung that tells of an objective."""

    rung: Position
    """The rung on the campaign's ladder."""

    at: PaidIndex
    """The same among the paid rungs, or KNOWN."""

    property: str
    """Name of the property."""


@dataclass(frozen=True)
class ObservationSchema:
    """Which answers the law of a campaign reads, and what it asks of them."""

    columns: tuple[ObservedColumn, ...]
    """What is read, in ladder order."""

    paid: tuple[Position, ...]
    """The rungs that are bought, the terminal one last."""

    aims: Aims
    """What is wanted, by column."""

    trusted: frozenset[PaidIndex]
    """Rungs below the terminal one that measure an objective's own property."""


def observation_schema(built: BuiltLadder) -> ObservationSchema | None:
    """None where no paid rung leads to the terminal one, or where no objective is measured: nothing can be priced."""
    from sciagent.scheduling.aims import Aim, Aims

    below = [r for r in built.rungs if r.rules.position <= built.terminal]
    paid = tuple(r.rules.position for r in below if r in built.paid)
    if not paid:
        return None
    wanted: list[list[ObservedColumn]] = []
    objectives: list[Objective] = []
    for objective in built.objectives:
        if chosen := _columns_of(objective.property, below, paid):
            wanted.append(chosen)
            objectives.append(objective)
    if not wanted:
        return None
    columns = sorted({c for one in wanted for c in one}, key=lambda c: (c.rung, c.property))
    place = {c: i for i, c in enumerate(columns)}
    aims = tuple(
        Aim(
            (*sorted(place[c] for c in mine[:-1]), place[mine[-1]]),
            *_limits(o),
            _desirability(o),
            o.weight,
            _hint(o, mine, built.rungs, place),
        )
        for o, mine in zip(objectives, wanted, strict=True)
    )
    goal = built.spec.goal
    kind = goal.kind if goal.kind != "hits" or any(o.accept for o in objectives) else "best"
    trusted = {c.at for c in columns if c.at != KNOWN and c.property in {o.property for o in objectives}}
    return ObservationSchema(
        tuple(columns), paid, Aims(aims, kind, goal.count or 1), frozenset(trusted - {PaidIndex(len(paid) - 1)})
    )


def _columns_of(name: str, rungs: Sequence[BuiltRung], paid: Sequence[Position]) -> list[ObservedColumn]:
    """What tells of a property, the highest rung that measures it last; nothing where none does."""
    deciding = max((i for i, r in enumerate(rungs) if name in _measured(r)), default=None)
    if deciding is None:
        return []
    found = []
    for rung in rungs[: deciding + 1]:
        position = rung.rules.position
        at = PaidIndex(paid.index(position)) if position in paid else KNOWN
        if name in _measured(rung):
            found.append(ObservedColumn(position, at, name))
        elif at != KNOWN:
            gated = [p for p in rung.rules.gate if p in _measured(rung) and p not in rung.verifier.gates]
            others = [p for p in _measured(rung) if p not in TELLS_LITTLE][:MOST]
            found += [ObservedColumn(position, at, p) for p in sorted(gated or others)]
    return found


def _hint(
    objective: Objective,
    columns: Sequence[ObservedColumn],
    rungs: Sequence[BuiltRung],
    place: Mapping[ObservedColumn, int],
) -> Hint | None:
    """What the highest lower rung that measures the property is known to say of it: by its verifier's declared prior,
    or by its gate, whose edges then stand for the objective's limits on the rung's own scale."""
    from sciagent.scheduling.law.hints import Hint

    lower = [c for c in columns[:-1] if c.property == objective.property and c.at != KNOWN]
    if not lower:
        return None
    name, rung, decides = objective.property, rungs[lower[-1].rung], rungs[columns[-1].rung]
    level = next(m.level.label for m in decides.verifier.measures if m.property.name == name).split("//")[0]
    for prior in rung.verifier.priors:
        told = (prior.slope, prior.intercept, prior.residual)
        own = next(m.level.method for m in rung.verifier.measures if m.property.name == name)
        if (prior.property, prior.level) == (name, level) and prior.method in (None, own) and None not in told:
            return Hint(place[lower[-1]], place[columns[-1]], *map(float, told))  # type: ignore[arg-type]
    gate, accept = rung.rules.gate.get(name), objective.accept
    if gate is None or accept is None:
        return None
    if _width(gate) > WIDE * _width(accept):
        return None  # it only keeps out what is absurd
    edges = [(g, a) for g, a in ((gate.low, accept.low), (gate.high, accept.high)) if g is not None and a is not None]
    if not edges:
        return None
    offset = float(np.mean([a - g for g, a in edges]))
    width = abs(edges[-1][0] - edges[0][0]) / 3 if len(edges) == 2 else GATE_SHARE * abs(edges[0][0])
    return Hint(place[lower[-1]], place[columns[-1]], 1.0, offset, max(width, objective.scale, 1e-6))


def _width(window: Window) -> float:
    return math.inf if window.low is None or window.high is None else window.high - window.low


def _measured(rung: BuiltRung) -> list[str]:
    return list(dict.fromkeys(one.property.name for one in rung.verifier.measures))


def _limits(objective: Objective) -> tuple[float, float]:
    accept = objective.accept
    low = -math.inf if accept is None or accept.low is None else accept.low
    high = math.inf if accept is None or accept.high is None else accept.high
    return low, high


def _desirability(objective: Objective) -> Callable[[Array], Array]:
    """`Objective.desirability` of arrays."""
    if objective.ramp is not None:
        worst, best = objective.ramp
        return lambda v: np.clip((v - worst) / (best - worst), 0.0, 1.0)
    low, high = _limits(objective)
    return lambda v: np.exp(-np.maximum(np.maximum(low - v, v - high), 0.0) / objective.scale)
