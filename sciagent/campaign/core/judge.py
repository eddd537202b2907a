"""From evidence to a verdict: gates in the rung's own units, objectives at the terminal rung, the score in between."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sciagent.domain.campaigns.directives import SteeringState
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.evidence import Measured, at_highest_rung
from sciagent.domain.jobs.states import Standing
from sciagent.domain.objectives import UTILITY_FLOOR, Objective, Window, utility
from sciagent.domain.outcomes import Outcome, Reason, Verdict
from sciagent.domain.properties import properties
from sciagent.domain.quantities import Quantity
from sciagent.domain.tiers import Tier


@dataclass(frozen=True)
class RungRules:
    """What a campaign asks of one rung. accept: limits of the objectives, at the terminal rung only. forgives: a
    candidate on which it fails goes on without it."""

    position: Position
    tier: str
    gate: Mapping[str, Window]
    accept: Mapping[str, Window]
    drop_on_refusal: bool
    is_terminal: bool
    forgives: bool = False


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
        is_terminal = position == terminal
        rules.append(
            RungRules(
                Position(position),
                rung.tier,
                rung.gate,
                limits if is_terminal else {},
                rung.drop_on_refusal,
                is_terminal,
                forgives,
            )
        )
    return tuple(rules)


class Judgement(NamedTuple):
    verdict: Verdict
    reason: Reason | None = None
    detail: str = ""


class Answer(NamedTuple):
    """What one rung said of a candidate, judged. `measured` is empty unless the outcome is ok."""

    position: Position
    judgement: Judgement
    measured: tuple[Measured, ...] = ()


def judge(
    rules: RungRules, outcome: Outcome, reason: Reason | None, detail: str, measured: Sequence[Measured]
) -> Judgement:
    """Gates first, then, at the terminal rung, the acceptance limits of the objectives."""
    if (fixed := outcome.rule.verdict) is not None:
        return Judgement(fixed, reason, detail)
    by_name = {m.property: m.quantity for m in measured}
    for kind, windows in (("gate", rules.gate), ("objective", rules.accept)):
        for name, window in windows.items():
            if name not in by_name:
                return Judgement(Verdict.INCONCLUSIVE, Reason.NOT_MEASURED, f"{name} was not measured")
            missed = window.misses(by_name[name])
            if missed is Reason.NOT_MEASURED:
                return Judgement(
                    Verdict.INCONCLUSIVE, missed, f"{name} = {by_name[name]} is censored at the {kind}'s edge"
                )
            if missed is not None:
                return Judgement(Verdict.FAIL, missed, f"{name} = {by_name[name]}, {kind} {show_window(name, window)}")
    return Judgement(Verdict.PASS)


def show_window(name: str, window: Window) -> str:
    unit = properties()[name].unit
    low = "" if window.low is None else f"{window.low:g} ≤ "
    high = "" if window.high is None else f" ≤ {window.high:g}"
    text = f"{low}{name}{high}"
    return text if unit == "1" else f"{text} {unit}"


@dataclass(frozen=True)
class Place:
    """Where a candidate stands after its answers; the columns of campaign_candidate."""

    standing: Standing
    position: Position
    verdict: Verdict | None
    reason: str | None
    detail: str
    depth: int
    score: float | None
    utility: float | None
    is_hit: bool
    hit_tier: str | None


def place(
    rules: Sequence[RungRules],
    objectives: Sequence[Objective],
    answers: Sequence[Answer],
    word: SteeringState | None = None,
) -> Place:
    """A pure function of the answers so far, in ladder order, and of what people said: run again, it says the same.

    word: a promotion waives what rungs below its own have said; a hold or a veto comes on top of it all.
    """
    word = word or SteeringState()
    standing, position, last = Standing.OPEN, 0, Judgement(Verdict.PASS)
    terminal_passed = False
    for answer in answers:
        rule, last = rules[answer.position], answer.judgement
        position = answer.position
        skipped = last.verdict is Verdict.NOT_APPLICABLE and not rule.drop_on_refusal and not rule.is_terminal
        skipped |= rule.forgives and last.verdict is Verdict.INCONCLUSIVE
        skipped |= answer.position < word.promoted_to  # a person waived it
        terminal_passed |= rule.is_terminal and last.verdict is Verdict.PASS
        if rule.is_terminal and last.verdict in (Verdict.PASS, Verdict.FAIL):
            standing = Standing.SETTLED
            break
        if last.verdict is not Verdict.PASS and not skipped:
            standing = Standing.DROPPED
            break
        position += 1
    if standing is Standing.OPEN:
        position = max(position, word.promoted_to)
    answered = [a for a in answers if a.measured]
    depth = max((a.position for a in answered), default=-1)
    values = {name: measured.quantity for name, (_, measured) in at_highest_rung(answered).items()}
    if terminal_passed and (missed := _missed(objectives, values)) is not None:
        terminal_passed, last = False, missed  # an objective that an earlier rung measured
    has_limits = any(o.accept is not None for o in objectives)
    is_hit = terminal_passed and has_limits
    at_end = standing is not Standing.OPEN
    found = Place(
        standing,
        Position(position),
        last.verdict if at_end else None,
        str(last.reason) if at_end and last.reason else None,
        last.detail if at_end else "",
        depth,
        score(rules, objectives, answers),
        utility(objectives, {n: q.value for n, q in values.items()}) if standing is Standing.SETTLED else None,
        is_hit,
        rules[depth].tier if is_hit else None,
    )
    return under(found, word)


def under(where: Place, word: SteeringState) -> Place:
    """Where a candidate stands once people's word is heard. A vetoed one is no hit and no parent, whatever was
    measured; a held one waits; both keep their evidence, and a release brings back what that says."""
    if word.vetoed:
        return replace(
            where,
            standing=Standing.VETOED,
            reason=str(Reason.VETOED),
            detail=_said(word),
            score=None,
            is_hit=False,
            hit_tier=None,
        )
    if word.held and where.standing is Standing.OPEN:
        return replace(where, standing=Standing.HELD, detail=_said(word))
    return where


def _said(word: SteeringState) -> str:
    return f"by {word.who}: {word.why}"


def _missed(objectives: Sequence[Objective], values: Mapping[str, Quantity]) -> Judgement | None:
    for o in objectives:
        if o.property not in values:
            return Judgement(Verdict.INCONCLUSIVE, Reason.NOT_MEASURED, f"{o.property} was not measured")
        if o.accept is not None and (reason := o.accept.misses(values[o.property])) is not None:
            detail = f"{o.property} = {values[o.property]}, objective {show_window(o.property, o.accept)}"
            return Judgement(Verdict.FAIL, reason, detail)
    return None


def score(rules: Sequence[RungRules], objectives: Sequence[Objective], answers: Sequence[Answer]) -> float | None:
    """In (0, 1]: how promising a candidate is. None until a paid rung, or the terminal one, has answered.

    An objective whose property the terminal rung has measured counts with its desirability. Below that, a value at a
    lower level is never held against the objective: it counts by how central it lies in that rung's own gate.
    """
    logs: list[float] = []
    weights: list[float] = []
    if not any(a.measured and (rules[a.position].tier != "fast" or rules[a.position].is_terminal) for a in answers):
        return None
    for objective in objectives:
        found = None
        for answer in answers:
            for m in answer.measured:
                if m.property != objective.property:
                    continue
                rule = rules[answer.position]
                if rule.is_terminal:
                    found = objective.desirability(m.quantity.value)
                elif m.property in rule.gate:
                    found = centrality(rule.gate[m.property], m.quantity.value)
        if found is not None:
            logs.append(objective.weight * math.log(max(found, UTILITY_FLOOR)))
            weights.append(objective.weight)
    return math.exp(sum(logs) / sum(weights)) if weights else None


def centrality(window: Window, value: float) -> float:
    """1 in the middle of a closed window, 0.5 at its edges, falling exponentially outside; 1 inside an open one."""
    if window.low is not None and window.high is not None and window.high > window.low:
        x = abs(value - (window.low + window.high) / 2) / ((window.high - window.low) / 2)
        return 1 - 0.5 * x * x if x <= 1 else 0.5 * math.exp(1 - x)
    edge = window.high if window.high is not None else window.low
    scale = max(abs(edge or 0.0) * 0.2, 0.1)
    return math.exp(-window.distance(value) / scale)
