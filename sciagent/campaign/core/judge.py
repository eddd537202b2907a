"""From evidence to a verdict: gates in the rung's own units, objectives at the terminal rung, the score in between."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sciagent.domain.campaigns.directives import SteeringState
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.evidence import Finding, Measured, at_highest_rung
from sciagent.domain.jobs.states import Standing
from sciagent.domain.objectives import UTILITY_FLOOR, Objective, Window, utility
from sciagent.domain.outcomes import Reason, Verdict
from sciagent.domain.properties import properties
from sciagent.domain.quantities import Quantity
from sciagent.domain.tiers import Tier
from sciagent.store.results.evidence import RecordedEvidence


@dataclass(frozen=True)
class RungRules:
    """What a campaign asks of one rung."""

    position: Position
    tier: str
    """Name of the tier, such as "simulation"."""
    gate: Mapping[str, Window]
    """Limits by property, in canonical units."""
    accept: Mapping[str, Window]
    """Limits of the objectives; empty below the terminal rung."""
    drop_on_refusal: bool
    """Whether a candidate that the verifier refuses is dropped."""
    is_terminal: bool
    forgives: bool = False
    """Whether a candidate goes on if the rung could not decide."""


@dataclass(frozen=True)
class RungTerms:
    """A rung as a spec or the ledger states it."""

    tier: str
    """Name of the tier, such as "simulation"."""
    gate: Mapping[str, Window]
    """Limits by property, in canonical units."""
    drop_on_refusal: bool
    """Whether a candidate that the verifier refuses is dropped."""
    measured: frozenset[str]
    """Names of the properties that the verifier can report."""


def ladder_rules(
    ladder: Sequence[RungTerms], accept: Mapping[str, Window | None], terminal: int, scheduler: str
) -> tuple[RungRules, ...]:
    """The rules of each rung.

    accept: acceptance limits by objective, None where an objective has none. terminal: position of the rung that
    decides. Under the scheduler `priced` a rung forgives its own failures where no objective rests on it: a paid rung
    below the terminal one, each of whose objectives is measured again later.
    """
    rules = []
    for position, rung in enumerate(ladder):
        later = frozenset().union(*(r.measured for r in ladder[position + 1 : terminal + 1]))
        below = scheduler == "priced" and rung.tier != Tier.FAST and position < terminal
        forgives = below and all(name in later or name not in rung.measured for name in accept)
        limits = {name: window for name, window in accept.items() if window is not None and name in rung.measured}
        is_last, drops = position == terminal, rung.drop_on_refusal
        asked = limits if is_last else {}
        rules.append(RungRules(Position(position), rung.tier, rung.gate, asked, drops, is_last, forgives))
    return tuple(rules)


class Judgement(NamedTuple):
    """A verdict and why."""

    verdict: Verdict
    reason: Reason | None = None
    detail: str = ""


class Answer(NamedTuple):
    """The answer of one rung on a candidate, judged."""

    position: Position
    judgement: Judgement
    measured: tuple[Measured, ...] = ()
    """Empty unless the outcome is ok."""


def judge(rules: RungRules, result: Finding | RecordedEvidence) -> Judgement:
    """Gates first, then, at the terminal rung, the acceptance limits of the objectives."""
    if (fixed := result.outcome.rule.verdict) is not None:
        return Judgement(fixed, result.reason, result.detail)
    values = {m.property: m.quantity for m in result.measured}
    return (
        _first_miss("gate", rules.gate, values)
        or _first_miss("objective", rules.accept, values)
        or Judgement(Verdict.PASS)
    )


def _first_miss(kind: str, limits: Mapping[str, Window | None], values: Mapping[str, Quantity]) -> Judgement | None:
    """The judgement on the first value that is missing or misses its limits. kind: of the limits, for its detail."""
    for name, window in limits.items():
        if name not in values:
            return Judgement(Verdict.INCONCLUSIVE, Reason.NOT_MEASURED, f"{name} was not measured")
        missed = None if window is None else window.misses(values[name])
        if missed is Reason.NOT_MEASURED:
            detail = f"{name} = {values[name]} is censored at the {kind}'s edge"
            return Judgement(Verdict.INCONCLUSIVE, missed, detail)
        if window is not None and missed is not None:
            return Judgement(Verdict.FAIL, missed, f"{name} = {values[name]}, {kind} {show_window(name, window)}")
    return None


def show_window(name: str, window: Window) -> str:
    unit = properties()[name].unit
    low = "" if window.low is None else f"{window.low:g} ≤ "
    high = "" if window.high is None else f" ≤ {window.high:g}"
    text = f"{low}{name}{high}"
    return text if unit == "1" else f"{text} {unit}"


@dataclass(frozen=True)
class Place:
    """A candidate's standing in its campaign; the columns of campaign_candidate."""

    standing: Standing
    position: Position
    """The rung that it waits for, or where it was dropped or settled."""
    verdict: Verdict | None
    """None while it is open."""
    reason: str | None
    detail: str
    depth: int
    """Position of the highest rung that measured anything; -1 for none."""
    score: float | None
    """In (0, 1]; see `score`."""
    utility: float | None
    """In (0, 1]; None until it is settled."""
    is_hit: bool
    hit_tier: str | None

    @property
    def columns(self) -> Mapping[str, Any]:
        """As the ledger stores it."""
        return {**vars(self), "detail": self.detail[:2000]}


def place(
    rules: Sequence[RungRules],
    objectives: Sequence[Objective],
    answers: Sequence[Answer],
    steering: SteeringState | None = None,
) -> Place:
    """The place of a candidate: a pure function of its answers, in ladder order, and of what people decided.

    steering: a promotion waives the verdicts of the rungs below its own; a hold or a veto overrides the result.
    """
    steering = steering or SteeringState()
    standing, position, last = _climb(rules, answers, steering.promoted_to)
    answered = [a for a in answers if a.measured]
    depth = max((a.position for a in answered), default=-1)
    reached = Place(standing, position, None, None, "", depth, score(rules, objectives, answers), None, False, None)
    if standing is not Standing.OPEN:
        values = {name: measured.quantity for name, (_, measured) in at_highest_rung(answered).items()}
        reached = _ended(reached, objectives, values, last, rules[depth].tier)
    return steered(reached, steering)


def _ended(
    where: Place, objectives: Sequence[Objective], values: Mapping[str, Quantity], last: Judgement, tier: str
) -> Place:
    """The place of a candidate that was dropped or settled. last: by the rung that did it. tier: of the highest rung
    that measured anything."""
    is_hit, worth = False, None
    if where.standing is Standing.SETTLED:
        worth = utility(objectives, {name: quantity.value for name, quantity in values.items()})
        limits = {o.property: o.accept for o in objectives}  # an earlier rung may have measured an objective
        missed = _first_miss("objective", limits, values) if last.verdict is Verdict.PASS else None
        last = missed or last
        is_hit = last.verdict is Verdict.PASS and any(limits.values())
    verdict, reason, detail = last
    named = str(reason) if reason else None
    ended = replace(where, verdict=verdict, reason=named, detail=detail, utility=worth)
    return replace(ended, is_hit=is_hit, hit_tier=tier if is_hit else None)


def _climb(
    rules: Sequence[RungRules], answers: Sequence[Answer], promoted_to: int
) -> tuple[Standing, Position, Judgement]:
    """Standing, position and the last judgement after these answers, before any person's hold or veto."""
    position, judgement = 0, Judgement(Verdict.PASS)
    for answer in answers:
        rule, judgement = rules[answer.position], answer.judgement
        if rule.is_terminal and judgement.verdict in (Verdict.PASS, Verdict.FAIL):
            return Standing.SETTLED, answer.position, judgement
        if judgement.verdict is not Verdict.PASS and not _goes_on(rule, judgement.verdict, promoted_to):
            return Standing.DROPPED, answer.position, judgement
        position = answer.position + 1
    return Standing.OPEN, Position(max(position, promoted_to)), judgement


def _goes_on(rule: RungRules, verdict: Verdict, promoted_to: int) -> bool:
    """Whether a candidate that did not pass a rung goes on all the same."""
    if verdict is Verdict.NOT_APPLICABLE and not rule.drop_on_refusal and not rule.is_terminal:
        return True
    return (rule.forgives and verdict is Verdict.INCONCLUSIVE) or rule.position < promoted_to


def steered(where: Place, steering: SteeringState) -> Place:
    """The place with people's decisions applied. A vetoed candidate is no hit and no parent, whatever was measured; a
    held one waits; both keep their evidence, and a release restores the place that follows from it."""
    detail = f"by {steering.who}: {steering.why}"
    if steering.vetoed:
        vetoed = replace(where, standing=Standing.VETOED, reason=str(Reason.VETOED), detail=detail)
        return replace(vetoed, score=None, is_hit=False, hit_tier=None)
    if steering.held and where.standing is Standing.OPEN:
        return replace(where, standing=Standing.HELD, detail=detail)
    return where


def score(rules: Sequence[RungRules], objectives: Sequence[Objective], answers: Sequence[Answer]) -> float | None:
    """In (0, 1]: how promising a candidate is. None until a paid rung, or the terminal one, has answered.

    An objective whose property the terminal rung has measured counts with its desirability. Below that, a value at a
    lower level is never held against the objective: it counts by how central it lies in that rung's own gate.
    """
    if not any(a.measured and (rules[a.position].tier != "fast" or rules[a.position].is_terminal) for a in answers):
        return None
    shares = [(o.weight, share) for o in objectives if (share := _share(rules, o, answers)) is not None]
    logs = [weight * math.log(max(share, UTILITY_FLOOR)) for weight, share in shares]
    return math.exp(sum(logs) / sum(weight for weight, _ in shares)) if shares else None


def _share(rules: Sequence[RungRules], objective: Objective, answers: Sequence[Answer]) -> float | None:
    """What one objective adds to the score, in [0, 1]; None if no answer counts."""
    share = None
    for answer in answers:
        rule = rules[answer.position]
        for m in answer.measured:
            if m.property == objective.property and rule.is_terminal:
                share = objective.desirability(m.quantity.value)
            elif m.property == objective.property and m.property in rule.gate:
                share = centrality(rule.gate[m.property], m.quantity.value)
    return share


def centrality(window: Window, value: float) -> float:
    """1 in the middle of a closed window, 0.5 at its edges, falling exponentially outside; 1 inside an open one."""
    if window.low is not None and window.high is not None and window.high > window.low:
        x = abs(value - (window.low + window.high) / 2) / ((window.high - window.low) / 2)
        return 1 - 0.5 * x * x if x <= 1 else 0.5 * math.exp(1 - x)
    edge = window.high if window.high is not None else window.low
    scale = max(abs(edge or 0.0) * 0.2, 0.1)
    return math.exp(-window.distance(value) / scale)
