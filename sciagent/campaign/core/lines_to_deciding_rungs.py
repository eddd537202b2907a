"""Straight lines from the values of lower rungs to those of the rungs that decide the objectives.

A line comes from the prior that the lower rung's verifier declares for the level of the deciding rung, or else from the
lower rung's gate, whose edges are read as the objective's limits on the rung's own scale. The scheduler's law starts
from these lines; until there is a law, they say what a lower rung's value lets one expect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.rungs import RungSpec
from sciagent.domain.derived_properties import DerivedProperty
from sciagent.domain.objectives import Objective, Window
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.worth import LineToDecidingRung

WIDE_GATE_RATIO = 5  # ratio of gate width to the objective's window above which a gate gives no line
GATE_SHARE = 0.25  # residual of a line from a gate with one edge, as a share of that edge
RESIDUALS_PER_GATE = 3  # width of a gate with two edges, in residuals of its line
LEAST_RESIDUAL = 1e-6  # least residual of a line from a gate, in the property's unit


def deciding_positions(ladder: Sequence[RungSpec], objectives: Sequence[Objective]) -> dict[str, int]:
    """Returns the position of the highest rung that measures the property of an objective, by property.

    ladder: the rungs up to the terminal one.
    """
    wanted = {objective.property for objective in objectives}
    deciding = {}
    for position, rung in enumerate(ladder):
        for name in wanted & set(rung.measured()):
            deciding[name] = position
    return deciding


def deciding_phases(spec: CampaignSpec) -> dict[str, str]:
    """Returns the phase of the values that decide an objective, by property, such as `water`; empty for a property that
    no rung up to the terminal one measures."""
    deciding = deciding_positions(spec.ladder[: spec.terminal_position + 1], spec.domain_objectives())
    phases = {objective.property: "" for objective in spec.domain_objectives()}
    for name, position in deciding.items():
        measures = spec.ladder[position].measures
        phases[name] = next(measure.level.phase for measure in measures if measure.property.name == name)
    return phases


def lines_of(ladder: Sequence[RungSpec], objectives: Sequence[Objective]) -> list[dict[str, LineToDecidingRung]]:
    """Returns for each rung its lines, by the property of an objective.

    ladder: the rungs up to the terminal one. The line of a rung that decides the objective, and of one without a prior
    and a telling gate, is missing.
    """
    lines: list[dict[str, LineToDecidingRung]] = [{} for _ in ladder]
    deciding = deciding_positions(ladder, objectives)
    for objective in objectives:
        name = objective.property
        for position, rung in enumerate(ladder[: deciding.get(name, 0)]):
            if name not in rung.measured():
                continue
            line = _prior_line(name, rung, ladder[deciding[name]]) or _gate_line(objective, rung)
            if line is not None:
                lines[position][name] = line
    return lines


def sparing_properties(ladder: Sequence[RungSpec], objectives: Sequence[Objective]) -> list[frozenset[str]]:
    """Returns for each rung the properties that it is run for: those of its gates, those of objectives that it
    measures, and the derived ones of which it measures a part.

    A candidate with experimental values of all of them does not need the rung, where such values decide. Empty for a
    fast rung, which costs next to nothing and also refuses candidates. ladder: the rungs up to the terminal one.
    """
    wanted = {objective.property for objective in objectives}
    gated = set[str]()
    derived = list[DerivedProperty]()
    for rung in ladder:
        gated.update(rung.window_gates())
        derived.extend(rung.derived)
    sparing = []
    for position, rung in enumerate(ladder):
        names = {*rung.window_gates(), *(wanted & set(rung.measured()))}
        for prop in derived:
            if position in prop.rungs and prop.definition.name in wanted | gated:
                names.add(prop.definition.name)
        sparing.append(frozenset() if rung.tier is Tier.FAST else frozenset(names))
    return sparing


def _prior_line(name: str, rung: RungSpec, deciding_rung: RungSpec) -> LineToDecidingRung | None:
    """Returns the declared line of a property at the deciding rung against `rung`; None without one."""
    deciding_label = next(m.level.label for m in deciding_rung.measures if m.property.name == name)
    deciding_level = deciding_label.split("//")[0]  # without the level of the geometry
    own_method = next(m.level.method for m in rung.measures if m.property.name == name)
    for prior in rung.configured.priors:
        is_for_level = prior.property == name and prior.level == deciding_level
        is_for_method = prior.method in (None, own_method)
        if not (is_for_level and is_for_method):
            continue
        if prior.slope is not None and prior.intercept is not None and prior.residual is not None:
            return LineToDecidingRung(prior.slope, prior.intercept, prior.residual)
    return None


def _gate_line(objective: Objective, rung: RungSpec) -> LineToDecidingRung | None:
    """Returns the line by the gate: its edges are the objective's limits on the rung's scale."""
    gate = rung.window_gates().get(objective.property)
    accept = objective.accept
    if gate is None or accept is None:
        return None
    if _width(gate) > WIDE_GATE_RATIO * _width(accept):
        return None  # a wide gate excludes only absurd values
    gate_edges = []
    offsets = []
    for gate_edge, limit in ((gate.low, accept.low), (gate.high, accept.high)):
        if gate_edge is not None and limit is not None:
            gate_edges.append(gate_edge)
            offsets.append(limit - gate_edge)
    if not gate_edges:
        return None
    if len(gate_edges) == 2:
        residual = abs(gate_edges[1] - gate_edges[0]) / RESIDUALS_PER_GATE
    else:
        residual = GATE_SHARE * abs(gate_edges[0])
    return LineToDecidingRung(1.0, math.fsum(offsets) / len(offsets), max(residual, objective.scale, LEAST_RESIDUAL))


def _width(window: Window) -> float:
    """Returns the width of a window; infinite with an open side."""
    if window.low is None or window.high is None:
        return math.inf
    return window.high - window.low
