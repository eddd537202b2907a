"""The columns of answers that the law of a campaign observes: properties of rungs that predict an objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sciagent.domain.ladder import PaidIndex, Position
from sciagent.domain.objectives import Objective, Window
from sciagent.scheduling.arrays import Array

if TYPE_CHECKING:
    from sciagent.campaign.core.build import BuiltLadder, BuiltRung
    from sciagent.scheduling.aims import Aim, Aims

KNOWN = PaidIndex(-1)  # index of all fast and inline rungs, whose answers are known for every candidate
MOST = 3  # most properties observed of a rung that does not measure the objective's property
WIDE = 5  # ratio of gate width to the objective's window above which a gate gives no hint
GATE_SHARE = 0.25  # residual of a hint from a gate with one edge, as a share of that edge
TELLS_LITTLE = frozenset({"total_energy"})  # properties that depend on little but the size of a molecule


@dataclass(frozen=True)
class ObservedColumn:
    """A property of one rung that predicts an objective."""

    rung: Position
    """Position of the rung on the campaign's ladder."""
    at: PaidIndex
    """Index of the rung among the paid rungs, or KNOWN for a rung that answers on every candidate at once."""
    property: str
    """Name of the property."""


@dataclass(frozen=True)
class ObservationSchema:
    """The answers that the law of a campaign observes, and the aims in terms of them."""

    columns: tuple[ObservedColumn, ...]
    """Observed columns, in ladder order."""
    paid: tuple[Position, ...]
    """Positions of the rungs that are bought, the terminal one last."""
    aims: Aims
    """The objectives and the goal, in terms of columns."""
    trusted: frozenset[PaidIndex]
    """Indices of rungs below the terminal one that measure an objective's own property."""


def observation_schema(built: BuiltLadder) -> ObservationSchema | None:
    """Returns the schema; None if no rung up to the terminal one is paid, or none measures an objective."""
    from sciagent.scheduling.aims import Aims

    below = [r for r in built.rungs if r.rules.position <= built.terminal]
    paid = tuple(r.rules.position for r in below if r in built.paid)
    wanted = [(o, own_columns) for o in built.objectives if (own_columns := _columns_of(o.property, below, paid))]
    if not paid or not wanted:
        return None
    columns = tuple(sorted({c for _, own_columns in wanted for c in own_columns}, key=lambda c: (c.rung, c.property)))
    place = {c: i for i, c in enumerate(columns)}
    aims = tuple(_aim(objective, own_columns, built.rungs, place) for objective, own_columns in wanted)
    objectives, goal = [objective for objective, _ in wanted], built.spec.goal
    trusted = _measuring(columns, objectives) - {KNOWN, PaidIndex(len(paid) - 1)}
    return ObservationSchema(columns, paid, Aims(aims, _kind(goal.kind, objectives), goal.count or 1), trusted)


def _kind(goal: str, objectives: Sequence[Objective]) -> str:
    """Returns the kind of goal: `hits` becomes `best` if no objective has limits, since nothing is a hit then."""
    return "best" if goal == "hits" and not any(o.accept for o in objectives) else goal


def _measuring(columns: Sequence[ObservedColumn], objectives: Sequence[Objective]) -> frozenset[PaidIndex]:
    """Returns the indices of rungs that measure the property of an objective."""
    names = {objective.property for objective in objectives}
    return frozenset(column.at for column in columns if column.property in names)


def _columns_of(name: str, rungs: Sequence[BuiltRung], paid: Sequence[Position]) -> list[ObservedColumn]:
    """Returns the columns that predict a property, the highest rung that measures it last; empty if no rung does."""
    deciding = max((i for i, r in enumerate(rungs) if name in _measured(r)), default=None)
    if deciding is None:
        return []
    columns = []
    for rung in rungs[: deciding + 1]:
        position = rung.rules.position
        at = PaidIndex(paid.index(position)) if position in paid else KNOWN
        if name in _measured(rung):
            columns.append(ObservedColumn(position, at, name))
        elif not rung.is_fast or at != KNOWN:
            gated = [p for p in rung.rules.gate if p in _measured(rung) and p not in rung.verifier.gates]
            others = [p for p in _measured(rung) if p not in TELLS_LITTLE][:MOST]
            columns += [ObservedColumn(position, at, p) for p in sorted(gated or others)]
    return columns


def _aim(
    objective: Objective,
    columns: Sequence[ObservedColumn],
    rungs: Sequence[BuiltRung],
    place: Mapping[ObservedColumn, int],
) -> Aim:
    """Returns the objective in terms of columns. Its hint comes from the highest lower rung that measures the property:
    from the prior that the verifier declares, or from the rung's gate."""
    from sciagent.scheduling.aims import Aim
    from sciagent.scheduling.law.hints import Hint

    *told_by, decides = columns
    lower = [c for c in told_by if c.property == objective.property and (c.at != KNOWN or not rungs[c.rung].is_fast)]
    line, hint = None, None
    if lower:
        rung = rungs[lower[-1].rung]
        line = _prior_line(objective.property, rung, rungs[decides.rung]) or _gate_line(objective, rung)
    if line is not None:
        hint = Hint(place[lower[-1]], place[decides], *line)
    seen = (*sorted(place[c] for c in told_by), place[decides])
    levels = [] if hint else [*lower, decides]  # a hint states more than that the slope is positive
    alike = tuple(tuple(sorted(place[c] for c in group)) for group in _of_one_property(objective, levels, told_by))
    passes = tuple((place[c], end) for c, end in _passing_ends(objective, told_by, rungs))
    limits = _limits(objective.accept)
    return Aim(seen, *limits, _desirability(objective), objective.weight, hint, alike, passes)


def _of_one_property(
    objective: Objective, levels: list[ObservedColumn], told_by: Sequence[ObservedColumn]
) -> list[list[ObservedColumn]]:
    """Returns groups of columns that measure one property. levels: those of the objective's own."""
    names = sorted({column.property for column in told_by} - {objective.property})
    groups = [levels, *([column for column in told_by if column.property == name] for name in names)]
    return [group for group in groups if len(group) > 1]


def _passing_ends(
    objective: Objective, told_by: Sequence[ObservedColumn], rungs: Sequence[BuiltRung]
) -> Iterator[tuple[ObservedColumn, int]]:
    """Yields the columns of other properties whose gate has one limit: 1 if what lies above it passes, else -1."""
    for column in told_by:
        gate = rungs[column.rung].rules.gate.get(column.property)
        if column.property != objective.property and gate is not None and (gate.low is None) != (gate.high is None):
            yield column, 1 if gate.high is None else -1


def _prior_line(name: str, rung: BuiltRung, decides: BuiltRung) -> tuple[float, float, float] | None:
    """Returns the declared slope, intercept and residual of a property at the deciding rung against `rung`."""
    level = next(m.level.label for m in decides.spec.measures if m.property.name == name).split("//")[0]
    own = next(m.level.method for m in rung.spec.measures if m.property.name == name)
    for prior in rung.verifier.priors:
        slope, intercept, residual = prior.slope, prior.intercept, prior.residual
        is_of_these = (prior.property, prior.level) == (name, level) and prior.method in (None, own)
        if is_of_these and slope is not None and intercept is not None and residual is not None:
            return slope, intercept, residual
    return None


def _gate_line(objective: Objective, rung: BuiltRung) -> tuple[float, float, float] | None:
    """Returns slope, intercept and residual by the gate: its edges are the objective's limits on the rung's scale."""
    gate, accept = rung.rules.gate.get(objective.property), objective.accept
    if gate is None or accept is None or np.ptp(_limits(gate)) > WIDE * np.ptp(_limits(accept)):
        return None  # a wide gate excludes only absurd values
    edges = [(g, a) for g, a in ((gate.low, accept.low), (gate.high, accept.high)) if g is not None and a is not None]
    if not edges:
        return None
    offset = float(np.mean([a - g for g, a in edges]))
    width = abs(edges[-1][0] - edges[0][0]) / 3 if len(edges) == 2 else GATE_SHARE * abs(edges[0][0])
    return 1.0, offset, max(width, objective.scale, 1e-6)


def _measured(rung: BuiltRung) -> list[str]:
    return list(dict.fromkeys(measured.property.name for measured in rung.spec.measures))


def _limits(window: Window | None) -> tuple[float, float]:
    low, high = (None, None) if window is None else (window.low, window.high)
    return -math.inf if low is None else low, math.inf if high is None else high


def _desirability(objective: Objective) -> Callable[[Array], Array]:
    """Returns `Objective.desirability` as a function of an array."""
    if objective.ramp is not None:
        worst, best = objective.ramp
        return lambda v: np.clip((v - worst) / (best - worst), 0.0, 1.0)
    low, high = _limits(objective.accept)
    return lambda v: np.exp(-np.maximum(np.maximum(low - v, v - high), 0.0) / objective.scale)
