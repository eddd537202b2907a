"""Derives verdicts, scores and places of candidates from evidence, gates and objectives.

`ladder_rules` makes the rules of the rungs, `judge` gives the verdict on one answer, and `place` gives the state of a
candidate in its campaign. A standing is one word for that state, such as open, pending or settled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sciagent.domain.directive_verbs_and_steering_state import SteeringState
from sciagent.domain.display_units import Units, quantity_in_chosen_unit, window_text
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding, Measured, at_highest_rung
from sciagent.domain.lab_messages_and_codes import NOT_OBTAINED
from sciagent.domain.objectives import UTILITY_FLOOR, Objective, Window, utility
from sciagent.domain.outcomes_verdicts_and_reasons import Reason, Verdict
from sciagent.domain.quantities import Quantity, named_value_text
from sciagent.domain.rung_positions_and_tiers import Position, Tier
from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state.same_structures import Likeness
from sciagent.store.results.evidence import RecordedEvidence

MAX_DETAIL = 2000  # characters of a detail that the ledger keeps


@dataclass(frozen=True)
class RungTerms:
    """The facts about a rung that a judgement needs, read from a spec or from a campaign in the ledger."""

    tier: str
    """Name of the tier, such as "simulation"."""
    gate: Mapping[str, Window]
    """Limits by property, in canonical units."""
    drop_on_refusal: bool
    """Whether a candidate that the verifier refuses is dropped."""
    measured: frozenset[str]
    """Names of the properties that the verifier can report."""
    is_known: bool = field(default=True, kw_only=True)
    """Whether `measured` is known; it is not if the verifier's package is missing."""


@dataclass(frozen=True)
class RungRules(RungTerms):
    """The rules by which a campaign judges the answers of one rung."""

    position: Position
    accept: Mapping[str, Window]
    """Acceptance limits of the objectives that this rung judges, in canonical units."""
    is_terminal: bool
    decides: frozenset[str] = frozenset()
    """Properties of the objectives that this rung decides: no later rung up to the terminal one measures them."""
    forgives: bool = False
    """Whether a candidate continues after an inconclusive answer of the rung."""
    units: Units = field(default_factory=dict)
    """Units in which the reasons of verdicts are written, by property."""


def ladder_rules(
    ladder: Sequence[RungTerms],
    accept: Mapping[str, Window | None],
    terminal: int,
    scheduler: str,
    goal: str,
    units: Units | None = None,
) -> tuple[RungRules, ...]:
    """Returns the rules of each rung.

    accept: acceptance limits by objective; None for an objective without limits. terminal: position of the terminal
    rung. goal: kind of the goal. units: units that the campaign chose, for the reasons of verdicts.

    The terminal rung judges by the limits of every objective that it measures. If the goal is hits, a lower rung judges
    by the limits of the objectives that it decides: a candidate that misses one can never be a hit.

    Under the scheduler `priced`, a paid rung below the terminal one forgives its own failures if a later rung measures
    each of its objectives again.
    """
    rules = []
    for position, rung in enumerate(ladder):
        above = ladder[position + 1 : terminal + 1]
        measured_later = _all_measured(above)
        may_forgive = scheduler == "priced" and rung.tier != Tier.FAST and position < terminal
        own_objectives = [name for name in accept if name in rung.measured]
        forgives = may_forgive and all(name in measured_later for name in own_objectives)
        decides = _decided(rung, above, accept)
        is_last = position == terminal
        judged = decides if is_last or goal == "hits" else frozenset()
        limits = {name: window for name, window in accept.items() if window is not None and name in judged}
        rules.append(
            RungRules(
                **vars(rung),
                position=Position(position),
                accept=limits,
                is_terminal=is_last,
                decides=decides,
                forgives=forgives,
                units=units or {},
            )
        )
    return tuple(rules)


def _decided(rung: RungTerms, above: Sequence[RungTerms], objectives: Iterable[str]) -> frozenset[str]:
    """Returns the properties of the objectives that a rung decides.

    above: the later rungs up to the terminal one. A rung whose `measured` is unknown may measure every property.
    """
    if not all(later.is_known for later in above):
        return frozenset()
    return (rung.measured & frozenset(objectives)) - _all_measured(above)


def _all_measured(rungs: Sequence[RungTerms]) -> frozenset[str]:
    """Returns the names of the properties that at least one of the rungs measures."""
    names = set[str]()
    for rung in rungs:
        names.update(rung.measured)
    return frozenset(names)


class Judgement(NamedTuple):
    """A verdict with its reason."""

    verdict: Verdict
    reason: Reason | None = None
    detail: str = ""


class Answer(NamedTuple):
    """The judged answer of one rung on a candidate."""

    position: Position
    judgement: Judgement
    measured: tuple[Measured, ...] = ()
    """Measured values; empty if the outcome is not ok."""


def judge(rules: RungRules, result: Finding | RecordedEvidence) -> Judgement:
    """Judges a result by the rung's gates, then by the limits of the objectives that it judges."""
    verdict_of_outcome = result.outcome.rule.verdict
    if verdict_of_outcome is not None:
        return Judgement(verdict_of_outcome, result.reason, result.detail)
    values = {m.property: m.quantity for m in result.measured}
    missed = _first_miss("gate", rules.gate, values, rules.units)
    missed = missed or _first_miss("objective", rules.accept, values, rules.units)
    return missed or Judgement(Verdict.PASS)


def _first_miss(
    kind: str, limits: Mapping[str, Window | None], values: Mapping[str, Quantity], units: Units
) -> Judgement | None:
    """Returns the judgement on the first value that is missing or outside its limits; None if there is none.

    kind: word for the limits. units: units in which the reason is written.
    """
    for name, window in limits.items():
        if name not in values:
            return Judgement(Verdict.INCONCLUSIVE, Reason.NOT_MEASURED, f"{name} was not measured")
        missed = None if window is None else window.misses(values[name])
        if missed is Reason.NOT_MEASURED:
            value = named_value_text(name, quantity_in_chosen_unit(name, values[name], units))
            return Judgement(Verdict.INCONCLUSIVE, missed, f"{value} is censored at the {kind}'s edge")
        if window is not None and missed is not None:
            value = named_value_text(name, quantity_in_chosen_unit(name, values[name], units))
            return Judgement(Verdict.FAIL, missed, f"{value}, {kind} {window_text(name, window, units)}")
    return None


@dataclass(frozen=True)
class Place:
    """A candidate's state in its campaign. The fields are columns of the table `campaign_candidate`."""

    standing: Standing
    position: Position
    """Position of the rung that it waits for, or at which it was dropped or settled."""
    verdict: Verdict | None
    """The final verdict; None while the candidate is open."""
    reason: str | None
    detail: str
    depth: int
    """Position of the highest rung that measured a property; -1 if no rung did."""
    score: float | None
    """Score in (0, 1]; see `score`."""
    utility: float | None
    """Utility in (0, 1]; None until the candidate is settled."""
    is_hit: bool
    hit_tier: str | None
    """Tier of the highest rung that measured a property of a hit; None for other candidates."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """Column values for the ledger."""
        return {**vars(self), "detail": self.detail[:MAX_DETAIL]}

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Place:
        """Returns the place that a row of the table holds; other columns are ignored."""
        fields = {name: columns[name] for name in cls.__dataclass_fields__}
        fields["standing"] = Standing(fields["standing"])
        fields["detail"] = fields["detail"] or ""
        return cls(**fields)


def place(
    rules: Sequence[RungRules],
    objectives: Sequence[Objective],
    answers: Sequence[Answer],
    steering: SteeringState | None = None,
    likeness: Likeness | None = None,
) -> Place:
    """Returns the place of a candidate. It follows from the answers, the likeness and people's decisions alone.

    answers: in ladder order. steering: people's decisions; a promotion waives the verdicts of lower rungs, and a hold
    or a veto overrides the result. likeness: the finding that a rung relaxed the candidate to the structure of another
    one; the candidate is then neither a hit nor a parent.
    """
    steering = steering or SteeringState()
    standing, position, last = _climb(rules, answers, steering.promoted_to)
    answered = [answer for answer in answers if answer.measured]
    depth = max((answer.position for answer in answered), default=-1)
    if likeness is not None and _is_barred(likeness, standing, position, last, steering.promoted_to):
        dropped = Place(
            Standing.DROPPED,
            likeness.position,
            verdict=Verdict.FAIL,
            reason=str(Reason.SAME_STRUCTURE),
            detail=likeness.detail,
            depth=depth,
            score=None,
            utility=None,
            is_hit=False,
            hit_tier=None,
        )
        return steered(dropped, steering)
    reached = Place(
        standing,
        position,
        verdict=None,
        reason=None,
        detail="",
        depth=depth,
        score=score(rules, objectives, answers),
        utility=None,
        is_hit=False,
        hit_tier=None,
    )
    if standing is not Standing.OPEN:
        values = {name: measured.quantity for name, (_, measured) in at_highest_rung(answered).items()}
        # without a measured property, `depth` is -1 and the last rung is passed on, but the candidate is no hit
        reached = _ended(reached, objectives, values, last, highest=rules[depth])
    return steered(reached, steering)


def _is_barred(likeness: Likeness, standing: Standing, position: Position, last: Judgement, promoted_to: int) -> bool:
    """Whether a likeness stops a candidate: it has passed the rung that found it, and no promotion waives that rung."""
    if likeness.position < promoted_to:
        return False
    is_beyond = position > likeness.position
    is_at_rung = position == likeness.position
    is_accepted = is_at_rung and standing is Standing.SETTLED and last.verdict is Verdict.PASS
    return is_beyond or is_accepted


def _ended(
    where: Place, objectives: Sequence[Objective], values: Mapping[str, Quantity], last: Judgement, highest: RungRules
) -> Place:
    """Returns the place of a dropped or settled candidate. last: judgement of the last rung. highest: the highest
    rung that measured a property."""
    is_hit = False
    worth = None
    if where.standing is Standing.SETTLED:
        if last.reason not in NOT_OBTAINED:  # a candidate that cannot be made is worth nothing
            worth = utility(objectives, {name: quantity.value for name, quantity in values.items()})
        # all objectives count here, since a lower rung may have measured one that the last rung does not
        limits = {objective.property: objective.accept for objective in objectives}
        if last.verdict is Verdict.PASS:
            last = _first_miss("objective", limits, values, highest.units) or last
        is_hit = last.verdict is Verdict.PASS and any(limits.values())
    verdict, reason, detail = last
    ended = replace(where, verdict=verdict, reason=str(reason) if reason else None, detail=detail, utility=worth)
    return replace(ended, is_hit=is_hit, hit_tier=highest.tier if is_hit else None)


def _climb(
    rules: Sequence[RungRules], answers: Sequence[Answer], promoted_to: int
) -> tuple[Standing, Position, Judgement]:
    """Returns standing, position and last judgement after these answers, without holds and vetoes."""
    position = 0
    judgement = Judgement(Verdict.PASS)
    for answer in answers:
        rule = rules[answer.position]
        judgement = answer.judgement
        if rule.is_terminal and judgement.verdict in (Verdict.PASS, Verdict.FAIL):
            return Standing.SETTLED, answer.position, judgement
        if judgement.verdict is not Verdict.PASS and not _goes_on(rule, judgement.verdict, promoted_to):
            return Standing.DROPPED, answer.position, judgement
        position = answer.position + 1
    return Standing.OPEN, Position(max(position, promoted_to)), judgement


def _goes_on(rule: RungRules, verdict: Verdict, promoted_to: int) -> bool:
    """Whether a candidate continues although it did not pass the rung."""
    if verdict is Verdict.NOT_APPLICABLE and not rule.drop_on_refusal and not rule.is_terminal:
        return True
    return (rule.forgives and verdict is Verdict.INCONCLUSIVE) or rule.position < promoted_to


def steered(where: Place, steering: SteeringState) -> Place:
    """Returns the place after a person's hold or veto. A vetoed candidate is neither a hit nor a parent.

    A held or vetoed candidate keeps its evidence, and a release restores the place that follows from the evidence.
    """
    detail = f"by {steering.who}: {steering.why}"
    if steering.vetoed:
        vetoed = replace(where, standing=Standing.VETOED, reason=str(Reason.VETOED), detail=detail)
        return replace(vetoed, score=None, is_hit=False, hit_tier=None)
    if steering.held and where.standing is Standing.OPEN:
        return replace(where, standing=Standing.HELD, detail=detail)
    return where


def score(rules: Sequence[RungRules], objectives: Sequence[Objective], answers: Sequence[Answer]) -> float | None:
    """Returns the score of a candidate in (0, 1]; None until a paid rung or the terminal rung has answered.

    The score is the weighted geometric mean of a share for each objective. At the rung that decides the objective, the
    share is the rank of the value, which is about its desirability. At a lower rung, the share is the centrality of
    the value in that rung's own gate, since the value has another level of theory than the objective.
    """
    if not any(answer.measured and _starts_score(rules[answer.position]) for answer in answers):
        return None
    weights = []
    logs = []
    for objective in objectives:
        share = _share(rules, objective, answers)
        if share is not None:
            weights.append(objective.weight)
            logs.append(objective.weight * math.log(share))
    return math.exp(sum(logs) / sum(weights)) if weights else None


def _starts_score(rule: RungRules) -> bool:
    """Whether a candidate has a score from this rung's answer on: the rung is paid or terminal."""
    return rule.tier != Tier.FAST or rule.is_terminal


def _share(rules: Sequence[RungRules], objective: Objective, answers: Sequence[Answer]) -> float | None:
    """Returns the contribution of one objective to the score, in (0, 1]; None if no answer counts."""
    share = None
    for answer in answers:
        rule = rules[answer.position]
        for m in answer.measured:
            if m.property != objective.property:
                continue
            if m.property in rule.decides:
                share = objective.rank(m.quantity.value)
            elif m.property in rule.gate:
                share = max(centrality(rule.gate[m.property], m.quantity.value), UTILITY_FLOOR)
    return share


def centrality(window: Window, value: float) -> float:
    """Returns 1 in the middle of a closed window, 0.5 at its edges, less outside; 1 inside a window with one limit."""
    if window.low is not None and window.high is not None and window.high > window.low:
        middle = (window.low + window.high) / 2
        half_width = (window.high - window.low) / 2
        x = abs(value - middle) / half_width  # 0 in the middle, 1 at the edges
        return 1 - 0.5 * x * x if x <= 1 else 0.5 * math.exp(1 - x)
    edge = window.high if window.high is not None else window.low
    # outside a window with one limit, a value loses a factor e over a fifth of the limit, or 0.1 if that is more
    scale = max(abs(edge or 0.0) * 0.2, 0.1)
    return math.exp(-window.distance(value) / scale)
