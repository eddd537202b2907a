"""Derives verdicts, worths and places of candidates from evidence, gates and objectives.

`ladder_rules` makes the rules of the rungs, `judge` gives the verdict on one answer, and `place` gives the state of a
candidate in its campaign. A standing is one word for that state, such as open, pending or settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, NamedTuple

from sciagent.domain.display_units import Units, limit_in_chosen_unit, quantity_in_chosen_unit, window_text
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding, Measured, at_highest_rung
from sciagent.domain.lab_messages_and_codes import NOT_OBTAINED
from sciagent.domain.objectives import Objective, Window, utility
from sciagent.domain.outcomes_verdicts_and_reasons import Reason, Verdict
from sciagent.domain.quantities import Quantity, named_value_text
from sciagent.domain.rung_positions_and_tiers import Position, Tier
from sciagent.domain.states_and_needs import Standing, SteeringState
from sciagent.domain.worth import (
    NO_COLUMNS,
    NOTHING,
    Belief,
    LineToDecidingRung,
    Worth,
    answered,
    estimated,
    worth_of,
    worth_of_unobtainable,
)
from sciagent.domain.worth import measured as measured_belief
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
    lines: Mapping[str, LineToDecidingRung] = field(default_factory=dict)
    """Lines from the rung's values to those of the deciding rung, by property of an objective."""
    spared_by: frozenset[str] = frozenset()
    """Properties that the rung is run for. If each has an experimental value that decides, the rung is not needed.
    Empty for a rung that is always needed."""
    ends_misses: bool = False
    """Whether a candidate that misses an objective goes no further, since the goal is hits."""
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
    lines: Sequence[Mapping[str, LineToDecidingRung]] = (),
    spared_by: Sequence[frozenset[str]] = (),
) -> tuple[RungRules, ...]:
    """Returns the rules of each rung.

    accept: acceptance limits by objective; None for an objective without limits. terminal: position of the terminal
    rung. goal: kind of the goal. units: units that the campaign chose, for the reasons of verdicts. lines: for each
    rung up to the terminal one, its lines to the deciding rungs. spared_by: for each rung, the properties whose
    experimental values make it unnecessary; empty unless such values decide.

    The terminal rung judges by the limits of every objective that it measures. If the goal is hits, a lower rung judges
    by the limits of the objectives that it decides: a candidate that misses one can never be a hit.

    Under the scheduler `priced`, a paid rung below the terminal one forgives its own failures if a later rung measures
    each of its objectives again.
    """
    rules = []
    # a rung above the terminal one has no lines and is never spared
    all_lines = [*lines, *repeat({}, len(ladder) - len(lines))]
    all_spared_by = [*spared_by, *repeat(frozenset[str](), len(ladder) - len(spared_by))]
    for position, (rung, own_lines, own_spared_by) in enumerate(zip(ladder, all_lines, all_spared_by, strict=True)):
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
                lines=own_lines,
                spared_by=own_spared_by,
                ends_misses=goal == "hits",
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


ExperimentalValues = Mapping[str, Quantity]
"""Imported experimental values that decide objectives, by property, in canonical units."""
NO_VALUES: ExperimentalValues = {}


def judge(
    rules: RungRules, result: Finding | RecordedEvidence, experimental: ExperimentalValues = NO_VALUES
) -> Judgement:
    """Judges a result by the rung's gates, then by the limits of the objectives that it judges.

    A gate or an objective whose quantity people could not obtain cannot be met, whatever the other values are.
    experimental: experimental values that decide; no gate and no limit of their properties applies to the result.
    """
    verdict_of_outcome = result.outcome.rule.verdict
    if verdict_of_outcome is not None:
        return Judgement(verdict_of_outcome, result.reason, result.detail)
    values = {m.property: m.quantity for m in result.measured}
    for name, reason in result.unobtained.items():
        is_judged = name in rules.gate or name in rules.decides
        if is_judged and name not in values and name not in experimental:  # another replicate may have a value
            return Judgement(Verdict.FAIL, reason, f"{name} not obtained: {reason}")
    gate = {name: window for name, window in rules.gate.items() if name not in experimental}
    accept = {name: window for name, window in rules.accept.items() if name not in experimental}
    missed = _first_miss("gate", gate, values, rules.units)
    missed = missed or _first_miss("objective", accept, values, rules.units)
    return missed or Judgement(Verdict.PASS)


def _first_miss(
    kind: str,
    limits: Mapping[str, Window | None],
    values: Mapping[str, Quantity],
    units: Units,
    experimental: ExperimentalValues = NO_VALUES,
) -> Judgement | None:
    """Returns the judgement on the first value that is missing or outside its limits; None if there is none.

    kind: word for the limits. units: units in which the reason is written. experimental: values that are named as
    measured.
    """
    for name, window in limits.items():
        if name not in values:
            return Judgement(Verdict.INCONCLUSIVE, Reason.NOT_MEASURED, f"{name} was not measured")
        missed = None if window is None else window.misses(values[name])
        if missed is Reason.NOT_MEASURED:
            value = named_value_text(name, quantity_in_chosen_unit(name, values[name], units))
            return Judgement(Verdict.INCONCLUSIVE, missed, f"{value} is censored at the {kind}'s edge")
        if window is not None and missed is not None:
            edges = [edge for edge in (window.low, window.high) if edge is not None]
            near = tuple(limit_in_chosen_unit(name, edge, units) for edge in edges)
            shown = replace(quantity_in_chosen_unit(name, values[name], units), near=near)
            value = named_value_text(name, shown)
            origin = " measured" if name in experimental else ""
            return Judgement(Verdict.FAIL, missed, f"{value}{origin}, {kind} {window_text(name, window, units)}")
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
    utility: float | None
    """Utility in (0, 1]; None until the candidate is settled."""
    is_hit: bool
    hit_tier: str | None
    """Tier of the highest rung that measured a property of a hit; None for other candidates."""
    worth: Worth | None = None
    """None until a paid rung or the terminal rung has answered, and for a vetoed candidate."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """Column values for the ledger."""
        own = {name: value for name, value in vars(self).items() if name != "worth"}
        worth = NO_COLUMNS if self.worth is None else self.worth.columns
        return {**own, **worth, "detail": self.detail[:MAX_DETAIL]}

    @classmethod
    def column_names(cls) -> tuple[str, ...]:
        """Returns the names of the columns for the ledger."""
        own = (name for name in cls.__dataclass_fields__ if name != "worth")
        return *own, *NO_COLUMNS

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Place:
        """Returns the place that a row of the table holds; other columns are ignored."""
        fields = {name: columns[name] for name in cls.__dataclass_fields__ if name != "worth"}
        fields["worth"] = Worth.from_columns(columns)
        fields["standing"] = Standing(fields["standing"])
        fields["detail"] = fields["detail"] or ""
        return cls(**fields)


def place(
    rules: Sequence[RungRules],
    objectives: Sequence[Objective],
    answers: Sequence[Answer],
    steering: SteeringState | None = None,
    likeness: Likeness | None = None,
    experimental: ExperimentalValues = NO_VALUES,
) -> Place:
    """Returns the place of a candidate. It follows from the answers, the likeness, the experimental values that decide
    and people's decisions alone.

    answers: in ladder order. steering: people's decisions; a promotion waives the verdicts of lower rungs, and a hold
    or a veto overrides the result. likeness: the finding that a rung relaxed the candidate to the structure of another
    one, or too far above it; the candidate is then neither a hit nor a parent. experimental: values that decide, see
    `decisive`; the answers were judged with them.

    If the goal is hits, a candidate with an experimental value outside the limits is dropped once it has passed the
    fast rungs, whatever later rungs have answered. Its position is then that of the rung which it would wait for, or at
    which it stands, without such values. A promotion waives that.
    """
    steering = steering or SteeringState()
    standing, position, last = _climb(rules, answers, steering.promoted_to, experimental)
    measured_miss = _measured_miss(rules, objectives, experimental, position, steering.promoted_to)
    if measured_miss is not None:
        _, position, _ = _climb(rules, answers, steering.promoted_to, NO_VALUES)
        standing = Standing.DROPPED
        position = Position(min(position, len(rules) - 1))
        last = measured_miss
    answered = [answer for answer in answers if answer.measured]
    depth = max((answer.position for answer in answered), default=-1)
    if likeness is not None and _is_barred(likeness, standing, position, last, steering.promoted_to):
        dropped = Place(
            Standing.DROPPED,
            likeness.position,
            verdict=Verdict.FAIL,
            reason=str(likeness.reason),
            detail=likeness.detail,
            depth=depth,
            utility=None,
            is_hit=False,
            hit_tier=None,
        )
        return steered(dropped, steering)
    reached = Place(
        standing, position, verdict=None, reason=None, detail="", depth=depth, utility=None, is_hit=False, hit_tier=None
    )
    if standing is not Standing.OPEN:
        values = {name: measured.quantity for name, (_, measured) in at_highest_rung(answered).items()}
        values |= experimental
        # without a measured property, `depth` is -1 and the last rung is passed on, but the candidate is no hit
        reached = _ended(reached, objectives, values, last, rules[depth], experimental)
    reached = replace(reached, worth=_worth(rules, objectives, answers, reached, experimental))
    return steered(reached, steering)


def _measured_miss(
    rules: Sequence[RungRules],
    objectives: Sequence[Objective],
    experimental: ExperimentalValues,
    position: Position,
    promoted_to: int,
) -> Judgement | None:
    """Returns the judgement on the first experimental value that ends the candidate's way; None if none does.

    position: the rung that the candidate has reached.
    """
    n_fast = 0  # number of leading rungs that answer on every candidate
    while n_fast < len(rules) and rules[n_fast].tier == Tier.FAST:
        n_fast += 1
    is_promoted = 0 < promoted_to >= n_fast
    if n_fast == len(rules) or position < n_fast or is_promoted or not rules[0].ends_misses:
        return None
    limits = {objective.property: objective.accept for objective in objectives if objective.property in experimental}
    return _first_miss("objective", limits, experimental, rules[0].units, experimental)


def _is_barred(likeness: Likeness, standing: Standing, position: Position, last: Judgement, promoted_to: int) -> bool:
    """Whether a likeness stops a candidate: it has passed the rung that found it, and no promotion waives that rung."""
    if likeness.position < promoted_to:
        return False
    is_beyond = position > likeness.position
    is_at_rung = position == likeness.position
    is_accepted = is_at_rung and standing is Standing.SETTLED and last.verdict is Verdict.PASS
    return is_beyond or is_accepted


def _ended(
    where: Place,
    objectives: Sequence[Objective],
    values: Mapping[str, Quantity],
    last: Judgement,
    highest: RungRules,
    experimental: ExperimentalValues,
) -> Place:
    """Returns the place of a dropped or settled candidate.

    values: with the experimental ones. last: judgement of the last rung. highest: the highest rung that measured a
    property.
    """
    is_hit = False
    worth = None
    if where.standing is Standing.SETTLED:
        if last.reason not in NOT_OBTAINED:  # a candidate that cannot be made is worth nothing
            worth = utility(objectives, {name: quantity.value for name, quantity in values.items()})
        # all objectives count here, since a lower rung may have measured one that the last rung does not
        limits = {objective.property: objective.accept for objective in objectives}
        if last.verdict is Verdict.PASS:
            last = _first_miss("objective", limits, values, highest.units, experimental) or last
        is_hit = last.verdict is Verdict.PASS and any(limits.values())
    verdict, reason, detail = last
    ended = replace(where, verdict=verdict, reason=str(reason) if reason else None, detail=detail, utility=worth)
    return replace(ended, is_hit=is_hit, hit_tier=highest.tier if is_hit else None)


def _climb(
    rules: Sequence[RungRules], answers: Sequence[Answer], promoted_to: int, experimental: ExperimentalValues
) -> tuple[Standing, Position, Judgement]:
    """Returns standing, position and last judgement after these answers, without holds and vetoes.

    A rung that experimental values spare is passed, whether and whatever it answered.
    """
    spared = {rule.position for rule in rules if is_spared(rule, experimental)}
    if promoted_to > 0:
        spared.discard(Position(promoted_to))  # a person wants this rung to run
    position = 0
    judgement = Judgement(Verdict.PASS)
    for answer in answers:
        rule = rules[answer.position]
        judgement = Judgement(Verdict.PASS) if answer.position in spared else answer.judgement
        if rule.is_terminal and judgement.verdict in (Verdict.PASS, Verdict.FAIL):
            return Standing.SETTLED, answer.position, judgement
        if judgement.verdict is not Verdict.PASS and not _goes_on(rule, judgement.verdict, promoted_to):
            return Standing.DROPPED, answer.position, judgement
        position = answer.position + 1
    position = max(position, promoted_to)
    while position in spared:
        if rules[position].is_terminal:
            return Standing.SETTLED, Position(position), Judgement(Verdict.PASS)
        position += 1
    return Standing.OPEN, Position(position), judgement


def is_spared(rule: RungRules, experimental: ExperimentalValues) -> bool:
    """Whether a rung need not run on a candidate: all that it is run for has an experimental value that decides."""
    return bool(rule.spared_by) and rule.spared_by <= experimental.keys()


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
        return replace(vetoed, worth=None, is_hit=False, hit_tier=None)
    if steering.held and where.standing is Standing.OPEN:
        return replace(where, standing=Standing.HELD, detail=detail)
    return where


def _worth(
    rules: Sequence[RungRules],
    objectives: Sequence[Objective],
    answers: Sequence[Answer],
    where: Place,
    experimental: ExperimentalValues,
) -> Worth | None:
    """Returns the worth of a candidate; None until a paid rung or the terminal rung has answered, or the candidate has
    passed the fast rungs and an experimental value decides an objective. A candidate that ended since people could not
    obtain what decides is worth nothing.

    where: its place, without a worth.
    """
    if objectives and where.reason in NOT_OBTAINED:
        has_limits = any(objective.accept is not None for objective in objectives)
        return worth_of_unobtainable(has_limits)
    has_answer = any(answer.measured and _starts_worth(rules[answer.position]) for answer in answers)
    has_passed_fast = where.position < len(rules) and rules[where.position].tier != Tier.FAST
    if not objectives or not (has_answer or (experimental and has_passed_fast)):
        return None
    is_over = where.standing is not Standing.OPEN
    is_miss = is_over and where.verdict in (Verdict.FAIL, Verdict.NOT_APPLICABLE)
    is_hit = True if where.is_hit else False if is_miss else None
    beliefs = [_belief(rules, objective, answers, experimental) for objective in objectives]
    return worth_of(objectives, beliefs, is_hit, is_over)


def _starts_worth(rule: RungRules) -> bool:
    """Whether a candidate has a worth from this rung's answer on: the rung is paid or terminal."""
    return rule.tier != Tier.FAST or rule.is_terminal


def _belief(
    rules: Sequence[RungRules], objective: Objective, answers: Sequence[Answer], experimental: ExperimentalValues
) -> Belief:
    """Returns what the answers, or an experimental value that decides, say about the value that the objective's
    deciding rung gives."""
    if objective.property in experimental:
        return measured_belief(objective, experimental[objective.property])
    belief = NOTHING
    for answer in answers:
        rule = rules[answer.position]
        for measured in answer.measured:
            if measured.property != objective.property:
                continue
            if measured.property in rule.decides:
                belief = answered(objective, measured.quantity)
            else:
                belief = estimated(objective, measured.quantity, rule.lines.get(objective.property))
    return belief
