"""Checks that the parts of a spec are consistent with each other.

The checks run on all parts that are valid by themselves, so that one reading reports as many mistakes as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from sciagent.campaign.file.derived_properties_and_fits_to_measured import DerivedSpec, check_calibrations, resolved
from sciagent.campaign.file.objectives_and_budget import BudgetSpec, GoalSpec, ObjectiveSpec, fault_of
from sciagent.campaign.file.rungs import RungSpec, check_control, default_label, find_verifier
from sciagent.campaign.file.subject_and_safety import StandardiseSpec
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_names
from sciagent.domain.derived_properties import DerivedProperty
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.errors import UsageError, did_you_mean
from sciagent.inputs.yaml_validation import Faults, Part
from sciagent.scheduling.rules import scheduler_class
from sciagent.scheduling.rules.priced_settings import PricedSpec
from sciagent.scheduling.rules.rank_by_one_rung import BestRungSpec
from sciagent.scheduling.rules.rule_and_settings_bases import SchedulerSpec
from sciagent.verification.verifier_registry import verifier_class

PartType = TypeVar("PartType", bound=Part)


@dataclass(frozen=True)
class Draft:
    """The parts of a spec that are valid by themselves."""

    subject: str | None
    objectives: Mapping[int, ObjectiveSpec]
    """Valid objectives, by position in the file."""
    ladder: Mapping[int, RungSpec]
    """Valid rungs, by position in the file."""
    labels: tuple[str | None, ...]
    """Labels of all rungs, valid or not; None for an unknown label."""
    terminal: str | None
    goal: GoalSpec | None
    budget: BudgetSpec | None
    ranking: BestRungSpec | None
    """The scheduler, if it ranks by one rung."""
    all_objectives: bool
    """Whether every objective is valid."""
    scheduler: type[SchedulerSpec] | None
    """Class of the scheduler, whose settings may be invalid; None for an unknown kind."""
    derived: Mapping[int, DerivedSpec]
    """Valid derived properties, by position in the file."""
    standardise: StandardiseSpec | None
    """The key `standardise` if it is a valid mapping."""
    controls: Mapping[int, RungSpec]
    """Valid rungs that are controls, by position in the file; `ladder` and `labels` are without them."""


def draft(data: Mapping[str, Any], base: Path | None = None) -> Draft:
    """Returns the valid parts of a spec or of unvalidated data. base: folder of the campaign file."""
    objectives = _items(data, "objectives")
    ladder = _items(data, "ladder")
    valid_objectives = _valid_parts(ObjectiveSpec, objectives)
    deciding, controls = _rungs(ladder, base)
    subject = data.get("subject")
    terminal = data.get("terminal")
    return Draft(
        subject=subject if subject in subject_names() else None,
        objectives=valid_objectives,
        ladder=deciding,
        labels=tuple(_label(item) for item in ladder if not is_control(item)),
        terminal=terminal if isinstance(terminal, str) else default_terminal(ladder),
        goal=_valid_or_none(GoalSpec, data.get("goal")),
        budget=_valid_or_none(BudgetSpec, data.get("budget")),
        ranking=_valid_or_none(BestRungSpec, data.get("scheduler")),
        all_objectives=len(valid_objectives) == len(objectives),
        scheduler=scheduler_class(_stated(data.get("scheduler"), "kind") or PricedSpec.name()),
        standardise=_valid_or_none(StandardiseSpec, data.get("standardise")),
        controls=controls,
        derived=_valid_parts(DerivedSpec, _items(data, "derived")),
    )


def _valid_parts(model: type[PartType], items: Sequence[Any], base: Path | None = None) -> dict[int, PartType]:
    """Returns the valid items of a list, by position in the file."""
    valid = {}
    for position, item in enumerate(items):
        part = _valid_or_none(model, item, base)
        if part is not None:
            valid[position] = part
    return valid


def _rungs(ladder: Sequence[Any], base: Path | None) -> tuple[dict[int, RungSpec], dict[int, RungSpec]]:
    """Returns the valid rungs that decide, and the valid controls, by position in the file."""
    valid = _valid_parts(RungSpec, ladder, base)
    deciding = {i: rung for i, rung in valid.items() if not rung.control}
    controls = {i: rung for i, rung in valid.items() if rung.control}
    return deciding, controls


def default_terminal(ladder: Sequence[Any]) -> str | None:
    """Returns the label of the last rung that is not of the world tier; if there is none, of the last rung. A control
    is never terminal."""
    ladder = [item for item in ladder if not is_control(item)]
    for item in reversed(ladder):
        verifier = find_verifier(_stated(item, "verifier"))
        if verifier is None or verifier.tier is not Tier.WORLD:
            return _label(item)
    return _label(ladder[-1]) if ladder else None


def is_control(item: Any) -> bool:
    """Whether a rung, valid or not, is a control."""
    return _stated(item, "control") is True


def check_together(parts: Draft) -> None:
    """Raises ValidationError with a fault for each contradiction between the parts."""
    # faults of controls are raised before the other checks, which are about the rungs that decide
    with Faults() as faults:
        check_control(parts.controls, parts.ladder, parts.terminal, parts.objectives.values(), faults)
        if parts.controls and not parts.labels:
            faults.add(("ladder",), "has no rung that decides: its only rung is a control")
    with Faults() as faults:
        _check_rungs(parts, faults)
        _check_charges(parts, faults)
        _check_terminal(parts, faults)
        _check_opinions(parts, faults)
        _check_weekly_slots(parts, faults)
        derived = _check_derived(parts, faults)
        _check_objectives(parts, faults, derived)
        limits = [objective.accept() for objective in parts.objectives.values()]
        has_no_limits = bool(limits) and not any(limits)
        wants_hits = parts.goal is not None and parts.goal.kind == "hits"
        if wants_hits and has_no_limits and parts.all_objectives:  # an invalid objective may have limits
            message = "hits need acceptance limits, and no objective has any"
            faults.add(("goal", "kind"), message, "give an objective a window, min or max; or use kind: best")
        if parts.budget is not None:
            for name in parts.budget.rungs:
                _check_label(name, ("budget", "rungs", name), parts, faults)
        all_rungs = len(parts.ladder) == len(parts.labels)
        if parts.ranking is not None and all_rungs and parts.terminal in parts.labels:
            _check_ranking(parts, parts.ranking, faults)


def _check_charges(parts: Draft, faults: Faults) -> None:
    """Adds a fault for a rung that would drop every ion, by default, in a campaign whose candidates become ions."""
    if parts.standardise is None or parts.standardise.ph is None:
        return
    for i, rung in parts.ladder.items():
        known = rung.configured.settings.model_dump()
        if "charges" in known and "charges" not in rung.settings:
            allowed = ", ".join(map(str, known["charges"]))
            message = f"standardise.ph makes ions, and {rung.verifier} allows net charge {allowed} unless you say which"
            faults.add(("ladder", i, "verifier"), message, "state it: settings: {charges: [-2, -1, 0, 1, 2]}")


def _check_label(name: str, loc: Sequence[str], parts: Draft, faults: Faults) -> None:
    """Adds a fault if no rung has this label. loc: the label's place in the file; below `budget`, a label is a key."""
    labels = [label for label in parts.labels if label]
    if loc[0] == "budget":  # the budget may limit controls too
        labels += [rung.rung for rung in parts.controls.values()]
    is_complete = None not in parts.labels  # otherwise a rung with an unknown label may be the one that is meant
    if name not in labels and is_complete:
        message = f'no rung is labelled "{name}"{did_you_mean(name, labels)}'
        hint = ", ".join(labels) or "none"
        faults.add(loc, message, f"rungs: {hint}", on_key=len(loc) > 1)


def _check_rungs(parts: Draft, faults: Faults) -> None:
    """Adds a fault for a label of two rungs, for a verifier of another subject, and for a misplaced inline rung."""
    for i, label in enumerate(parts.labels):
        if label is None:
            continue
        first = parts.labels.index(label)
        if first < i:
            faults.add(("ladder", i, "rung"), f'"{label}" also labels ladder[{first}]; labels must differ')
    for i, rung in (*parts.ladder.items(), *parts.controls.items()):
        kind = verifier_class(rung.verifier)
        if parts.subject is not None and not kind.takes(parts.subject):
            message = f'verifier "{rung.verifier}" is for a {kind.kind}, not a {parts.subject}'
            faults.add(("ladder", i, "verifier"), message)
    _check_inline(parts, faults)


def _check_inline(parts: Draft, faults: Faults) -> None:
    """Adds a fault for an inline rung above a rung that is bought, and for settings that are about bought rungs."""
    for i, rung in parts.ladder.items():
        if not rung.inline:
            continue
        bought_before = []
        for position, other in parts.ladder.items():
            if position < i and not other.may_answer_inside_turn:
                bought_before.append(other.rung)
        if bought_before:
            last = bought_before[-1]
            message = f'"{rung.rung}" cannot answer inside the turn, since "{last}" before it is bought later'
            faults.add(("ladder", i, "inline"), message, f'mark "{last}" inline too, or move it after this rung')
        if parts.budget is not None and rung.rung in parts.budget.rungs:
            message = f'"{rung.rung}" answers inside the turn and has no jobs to count'
            faults.add(("budget", "rungs", rung.rung), message, "limit proposals or core_seconds", on_key=True)
        scheduler = parts.scheduler
        if scheduler is not None and scheduler.knows_chance and rung.rung == parts.terminal:
            drawn = f'{scheduler.name()} draws what "{rung.rung}" verifies'
            message = f"{drawn}, and an inline rung answers on every candidate"
            faults.add(("scheduler", "kind"), message, "leave the scheduler out, since nothing is left to buy")


def _check_terminal(parts: Draft, faults: Faults) -> None:
    """Adds a fault for a terminal rung that does not exist, and for each rung after the terminal one."""
    if parts.terminal is not None:
        _check_label(parts.terminal, ("terminal",), parts, faults)
    # the other checks report a label that no rung has or several rungs have
    if parts.terminal is not None and parts.labels.count(parts.terminal) == 1:
        for i, rung in parts.ladder.items():
            if i > parts.labels.index(parts.terminal):
                message = f'comes after the terminal rung "{parts.terminal}" and would never run'
                hint = f"write terminal: {rung.rung}" if rung.is_world else "move it before the terminal rung"
                faults.add(("ladder", i, "verifier"), message, f"{hint}, or leave it out")


def _check_weekly_slots(parts: Draft, faults: Faults) -> None:
    """Adds a fault for a weekly limit without an end: the scheduler `priced` would take one week's slots for all."""
    if parts.scheduler is not PricedSpec or parts.budget is None or parts.budget.until is not None:
        return
    resources = set[str]()  # that rungs of the laboratory take
    for rung in parts.ladder.values():
        if rung.lab is not None:
            resources.update(rung.lab.cost.total())
    endless = sorted(resources & set(parts.budget.rates()))
    if endless:
        name = endless[0]
        message = f"a weekly limit of {name}, and nothing says for how many weeks"
        faults.add(("budget", name), message, "add budget.until, such as until: '2027-03-31'", on_key=True)


def _check_opinions(parts: Draft, faults: Faults) -> None:
    """Adds a fault for an opinion that comes after a calculation or measurement, or that is the terminal rung of a
    ladder with a calculation or measurement."""
    physical = [i for i, rung in parts.ladder.items() if rung.tier is not Tier.FAST and not rung.configured.opinion]
    for i, rung in parts.ladder.items():
        physical_before = [parts.ladder[position].rung for position in physical if position < i]
        if not rung.configured.opinion or not physical:
            continue
        if physical_before or rung.rung == parts.terminal:
            what = f'comes after "{physical_before[-1]}"' if physical_before else "is the terminal rung"
            message = f'"{rung.verifier}" is an opinion and {what}; it cannot outrank a calculation or a measurement'
            last = parts.ladder[physical[-1]].rung
            faults.add(("ladder", i, "verifier"), message, f'move it before them, and let "{last}" decide')


def _check_derived(parts: Draft, faults: Faults) -> list[DerivedProperty]:
    """Adds a fault for a derived property whose parts are not measured, and for a gate at a rung where the gated
    property is not known. Returns the valid derived properties."""
    if len(parts.ladder) != len(parts.labels) or parts.terminal not in parts.labels:
        return []
    terminal_position = parts.labels.index(parts.terminal)
    rungs = [parts.ladder[i] for i in sorted(parts.ladder)]
    ladder = rungs[: terminal_position + 1]
    formulas: dict[str, str] = {}
    known: dict[str, str] = {}  # by derived property: label of the rung after which it is known
    valid: list[DerivedProperty] = []
    for i, stated in parts.derived.items():
        if stated.property in known:
            faults.add(("derived", i, "property"), f'"{stated.property}" is derived twice')
            continue
        try:
            prop = resolved(stated, ladder, formulas)
        except UsageError as error:
            faults.take(("derived", i, "formula"), fault_of(error))
            continue
        formulas[stated.property] = prop.formula.text
        known[stated.property] = ladder[prop.last].rung
        valid.append(prop)
        _check_skipping(parts, i, prop, ladder, faults)
    for i, rung in parts.ladder.items():
        _check_gates(i, rung, known, faults)
    return valid


def _check_skipping(
    parts: Draft, place: int, prop: DerivedProperty, ladder: Sequence[RungSpec], faults: Faults
) -> None:
    """Adds a fault if an objective or a gate needs a derived property of several paid rungs, and the scheduler may skip
    one of these rungs."""
    paid = sorted(ladder[position].rung for position in prop.rungs if not ladder[position].may_answer_inside_turn)
    used = {objective.property for objective in parts.objectives.values()}
    for rung in ladder:
        used.update(rung.gate)
    scheduler = parts.scheduler
    if scheduler is None or not scheduler.may_skip:
        return
    if len(paid) > 1 and prop.definition.name in used:
        message = f"{scheduler.name()} may skip one of the rungs that it needs: {', '.join(paid)}"
        faults.add(("derived", place, "formula"), message, "use the scheduler thresholds, halving or exhaustive")


def _check_gates(place: int, rung: RungSpec, known: Mapping[str, str], faults: Faults) -> None:
    """Adds a fault for a gate on a property that is not known after the rung. known: labels by derived property."""
    own = {measure.property.name for measure in rung.configured.measures}
    for name in rung.gate:
        if name not in own and known.get(name) != rung.rung:
            hint = f'put the gate at the rung "{known[name]}"' if name in known else "state it under derived"
            faults.add(("ladder", place, "gate", name), f'"{name}" is not known after this rung', hint, on_key=True)


def _check_objectives(parts: Draft, faults: Faults, derived: Sequence[DerivedProperty]) -> None:
    """Adds a fault for an objective that is stated twice, or whose property no rung up to the terminal one measures.

    derived: the valid derived properties.
    """
    first_by_property: dict[str, int] = {}
    for i, objective in parts.objectives.items():
        first = first_by_property.setdefault(objective.property, i)
        if first != i:
            path = ("objectives", i, "property")
            faults.add(path, f'"{objective.property}" is also objectives[{first}]; state all in one objective')
    are_rungs_valid = len(parts.ladder) == len(parts.labels)
    are_labels_unique = len(parts.labels) == len(set(parts.labels))
    if not are_rungs_valid or not are_labels_unique or parts.terminal not in parts.labels:
        return  # another check reports this
    last = parts.labels.index(parts.terminal)
    measured = _measured(rung for i, rung in parts.ladder.items() if i <= last) | {
        prop.definition.name for prop in derived
    }
    for i, objective in parts.objectives.items():
        if objective.property not in measured:
            message = f'no rung up to the terminal "{parts.terminal}" measures "{objective.property}"'
            hint = f"measured: {', '.join(sorted(measured)) or 'nothing'}"
            for rung in parts.ladder.values():
                setting = rung.setting_that_hides(objective.property)
                if setting is not None:
                    hint = f'rung "{rung.rung}" measures it without `{setting}`'
            faults.add(("objectives", i, "property"), message, hint)
    check_calibrations(parts.objectives, parts.ladder, last, derived, faults)


def _check_ranking(parts: Draft, ranking: BestRungSpec, faults: Faults) -> None:
    """Adds a fault for an invalid ranking rung, or for objectives that only rungs measure that `best_rung` skips."""
    ladder = list(parts.ladder.values())
    fast = {rung.rung for rung in ladder if rung.may_answer_inside_turn}
    paid = [rung.rung for rung in ladder[: parts.labels.index(parts.terminal)] if rung.rung not in fast]
    ranking_rung = ranking.rung
    if ranking_rung is None and paid:
        ranking_rung = paid[-1]
    if ranking.rung is not None and ranking.rung not in paid:
        why = "is not a paid rung below the terminal one" if ranking.rung in parts.labels else "labels no rung"
        near = did_you_mean(ranking.rung, paid)
        hint = f"paid rungs there: {', '.join(paid) or 'none'}"
        faults.add(("scheduler", "rung"), f'"{ranking.rung}" {why}{near}', hint)
        return
    run_labels = {*fast, ranking_rung, parts.terminal}
    rungs_run = [rung for rung in ladder if rung.rung in run_labels]
    properties_left_out = _measured(ladder) - _measured(rungs_run)
    for objective in parts.objectives.values():
        if objective.property in properties_left_out:
            message = f'"{objective.property}" is measured only by a rung that best_rung leaves out'
            key = "rung" if ranking.rung else "kind"
            faults.add(("scheduler", key), message, "name that rung, or use another scheduler")


def _measured(rungs: Iterable[RungSpec]) -> set[str]:
    """Returns the properties that the rungs measure."""
    names = set[str]()
    for rung in rungs:
        names.update(rung.measured())
    return names


def _label(item: Any) -> str | None:
    """Returns the label of a rung, valid or not; None if it is unknown."""
    label = _stated(item, "rung")
    verifier = _stated(item, "verifier")
    if label is None and isinstance(verifier, str):
        label = default_label(verifier)
    return label if isinstance(label, str) else None


def _stated(item: Any, key: str) -> Any:
    """Returns the value of a key of a rung, valid or not; None if it is not stated."""
    return item.get(key) if isinstance(item, dict) else getattr(item, key, None)


def _items(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Returns the list under a key; empty if there is no list."""
    value = data.get(key)
    return value if isinstance(value, list | tuple) else ()


def _valid_or_none(part: type[PartType], value: Any, base: Path | None = None) -> PartType | None:
    """Returns the value as a valid part of the file; None if it is not valid."""
    if isinstance(value, part):
        return value
    try:
        return part.model_validate(value, context={"base": base})
    except ValidationError:
        return None
