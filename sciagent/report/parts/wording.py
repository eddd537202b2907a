"""Texts of a report: values, objectives, verdicts, costs and diagnostics, and the glossary.

The glossary is for chemists; docs/results.md has the same table.

Diagnostics are facts that a verifier states beside its values, such as points of a gap.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from sciagent.chemistry.subjects.base import Words
from sciagent.domain.answers.status_and_comparison import FilterCounts
from sciagent.domain.cost_and_budget import RESOURCE_UNITS
from sciagent.domain.evidence_keys_and_pooled_replicates import (
    BETWEEN_LIMITS,
    ISOMER,
    MEAN,
    RELAXATION,
    SIMULATION,
    UNCERTAINTY_KIND,
    WEIGHTED_MEAN,
    Measured,
)
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.quantities import value_text
from sciagent.domain.safe_text_and_durations import one_line

_THIN = "\N{NARROW NO-BREAK SPACE}"
MAX_SETTING = 400  # characters of one setting that are shown
MISSED = {"below_window", "above_window", "not_measured"}  # reasons of a verdict that missed a limit
_STATED = re.compile(r"(\w+) [=<>] ")  # the property with which the detail of such a verdict begins


def missed_property(reason: str | None, detail: str | None) -> str:
    """Returns the property whose limits a verdict missed, by its reason and detail; empty for another reason."""
    stated = _STATED.match(detail or "") if reason in MISSED else None
    return stated[1] if stated else ""


_BY_MEASUREMENT = re.compile(r"\w+ [=<>] [^,]* measured, objective ")


def is_by_measurement(detail: str | None) -> bool:
    """Whether the detail of a verdict says that an imported experimental value missed the limits of an objective."""
    return _BY_MEASUREMENT.match(detail or "") is not None


def value(measured: Measured, unit: bool = True) -> str:
    """Returns a text such as `4.12 ± 0.05 eV`; `± ?` marks an unknown uncertainty, and an exact value has no `±`.

    unit: whether the text has the unit.
    """
    q = measured.quantity
    shown_unit = unit_sign(q.unit) if unit else "1"  # the unit 1 is not written
    text = q.censoring.sign + value_text(q.value, q.uncertainty, shown_unit, q.as_typed, q.near)
    return text if q.uncertainty is not None else f"{text} (± ?)"


def words(name: str) -> str:
    """Converts a name for people: `homo_lumo_gap` to `HOMO-LUMO gap`; other names get spaces for underscores."""
    return _NAMES.get(name, name.replace("_", " "))


# a name directly before `=`, `≤`, `≥`, `was not measured` or `not obtained:`, as verdicts state properties
_PROPERTY = re.compile(r"\b([a-z][a-z0-9_]*)(?= (?:=|≤|≥|was not measured|not obtained:))")


def titled(detail: str) -> str:
    """Returns the reason of a verdict, `homo_lumo_gap = 3.1 eV, gate homo_lumo_gap ≤ 2.8 eV`, with the properties in
    words."""
    known = properties()

    def in_words(match: re.Match[str]) -> str:
        name = match[1]
        return words(name) if name in known else name

    return _PROPERTY.sub(in_words, detail)


_NAMES = {
    "homo": "HOMO",
    "lumo": "LUMO",
    "homo_lumo_gap": "HOMO-LUMO gap",
    "logp": "logP",
    "tpsa": "TPSA",
    "qed": "QED",
    "sa_score": "SA score",
    "s1_energy": "S1 energy",
    "dipole": "dipole moment",
    "llm_tokens": "LLM tokens",
    "gpu_seconds": "GPU seconds",
    "person_hours": "person-hours",
}


def mark(kind: str) -> str:
    """Returns the sign and the word for `hit`, `contradicted`, `verified`, `open` or `fallen`."""
    return {
        "hit": "▲ hit",
        "contradicted": "⚠ hit, contradicted",
        "verified": "● verified",
        "open": "○ not verified yet",
        "fallen": "✕ dropped",
    }[kind]


def unit_sign(unit: str) -> str:
    """Converts a unit for people: `angstrom**2` to `Å²`; other units stay as they are."""
    return unit.replace("angstrom", "Å").replace("**2", "²").replace("**3", "³").replace("*", "·")


def after_number(unit: str) -> str:
    """Returns the unit as it follows a number: ` Å²`, or an empty text for the unit 1."""
    return "" if unit == "1" else f" {unit_sign(unit)}"


def with_unit(name: str, unit: str) -> str:
    """Returns a property with its unit, such as `S1 energy / eV`; without a unit for the unit 1."""
    return words(name) if unit == "1" else f"{words(name)} / {unit_sign(unit)}"


def window(edges: Any, name: str, unit: str) -> str:
    """Returns a text such as `4 ≤ HOMO-LUMO gap ≤ 4.6 eV`; empty without edges."""
    low, high = edges or (None, None)
    if low is None and high is None:
        return ""
    lower = "" if low is None else f"{low:g} ≤ "
    upper = "" if high is None else f" ≤ {high:g}"
    return f"{lower}{words(name)}{upper}{after_number(unit)}"


def aim_sentence(objective: Mapping[str, Any]) -> str:
    """Returns a sentence on the aim of an objective."""
    name = objective["property"]
    unit = objective["unit"]
    ramp = objective.get("ramp")
    aim = f"{objective['direction']} {words(name)}"
    limits = window(objective.get("accept"), name, unit)
    if ramp:
        aim += f", from {ramp[0]:g} (worst) to {ramp[1]:g}{after_number(unit)} (best)"
        return f"{aim}; {limits}" if limits else aim
    return limits or aim


def duration(seconds: float, prefix: str = "") -> str:
    """Returns a text such as `1.5 minutes`, in the largest unit in which the time is at least 1; days from two on.

    prefix: such as `core-`; such a time has no days.
    """
    if seconds >= 2 * DAY and not prefix:
        return f"{seconds / DAY:.3g} days"
    if seconds >= 3600:
        return f"{seconds / 3600:.3g} {prefix}hours"
    if seconds >= 60:
        return f"{seconds / 60:.3g} {prefix}minutes"
    return f"{seconds:.3g} {prefix}seconds"


DAY = 86400.0  # seconds


def short_duration(seconds: float) -> str:
    """Returns a text such as `1.5 min`, in the unit of `duration`."""
    number_text, unit = duration(seconds).split()
    symbols = {"seconds": "s", "minutes": "min", "hours": "h", "days": "d"}
    return f"{number_text} {symbols[unit]}"


def cost(core_seconds: float) -> str:
    """Returns a text such as `1.5 core-minutes`."""
    return duration(core_seconds, "core-")


def resource_unit(resource: str, total: float) -> tuple[str, float]:
    """Returns the unit for amounts of a resource of up to `total`, and the unit in that of the ledger.

    The unit names what is counted: `core-hours`, `EUR`, `person-hours`, `lab slots`.
    """
    if resource in ("core_seconds", "gpu_seconds"):
        prefix = "core-" if resource == "core_seconds" else "GPU-"
        if total < 300:
            return f"{prefix}seconds", 1.0
        if total < 3 * 3600:
            return f"{prefix}minutes", 60.0
        return f"{prefix}hours", 3600.0
    unit = RESOURCE_UNITS.get(resource, "1")
    is_named_by_resource = unit in ("1", "h")
    return (words(resource) if is_named_by_resource else unit), 1.0


def time_unit(longest: float) -> tuple[str, float]:
    """Returns the unit for times of up to `longest` seconds, and the unit in seconds."""
    if longest < 120:
        return "seconds", 1.0
    if longest < 2 * 3600:
        return "minutes", 60.0
    if longest < 2 * DAY:
        return "hours", 3600.0
    return "days", DAY


def amount(resource: str, booked: float) -> str:
    """Returns an amount of a resource with its unit: `240 EUR`, `9 person-hours`, `1.5 core-minutes`, `2 lab slots`.

    resource: of the ledger, or `wall_minutes` or `verifications`, which budgets limit, too.
    """
    if resource == "core_seconds":
        return cost(booked)
    if resource == "gpu_seconds":
        return duration(booked, "GPU-")
    if resource == "wall_minutes":
        return short_duration(60 * booked)
    if resource == "money":
        return f"{bare_amount(resource, booked)} {RESOURCE_UNITS[resource]}"
    name = words(resource)
    return f"{bare_amount(resource, booked)} {name.removesuffix('s') if booked == 1 else name}"


def amount_below_name(resource: str, booked: float) -> str:
    """Returns an amount as it stands below the name of its resource: `240 EUR`, `9 h`, `1.5 core-minutes`, `2`."""
    unit = RESOURCE_UNITS.get(resource)
    if unit in ("1", "h"):
        return f"{bare_amount(resource, booked)}{after_number(unit)}"
    return amount(resource, booked)


def column_of_amounts(resource: str, booked: Sequence[float]) -> list[str]:
    """Returns amounts of a resource as they stand in one column below its name: in one unit, with equal decimals, so
    that they can be compared. An amount of zero is a dash."""
    largest = max(booked, default=0.0)
    unit, factor = resource_unit(resource, largest)
    ledger_unit = RESOURCE_UNITS.get(resource)
    if ledger_unit in ("1", "h"):
        after = after_number(ledger_unit)
    else:
        after = f" {unit}"
    is_whole = all(each == round(each) for each in booked) and factor == 1
    decimals = 0
    if largest > 0 and not is_whole:
        decimals = max(0, 2 - math.floor(math.log10(largest / factor)))
    cells = []
    for each in booked:
        text = f"{each / factor:,.{decimals}f}".replace(",", _THIN)
        if each and not float(text.replace(_THIN, "")):
            text = f"<{10.0**-decimals:.{decimals}f}"
        cells.append(f"{text}{after}" if each else "–")
    return cells


def used_of_limit(resource: str, used: float, limit: float) -> str:
    """Returns what is used of a limit, such as `240 of 1 000 EUR`, `0.2 of 3 core-minutes` or `12 s of 2 h`."""
    if resource == "wall_minutes":
        return f"{amount(resource, used)} of {amount(resource, limit)}"
    if resource in ("core_seconds", "gpu_seconds"):
        unit, factor = resource_unit(resource, limit)
        return f"{number(used / factor)} of {number(limit / factor)} {unit}"
    return f"{bare_amount(resource, used)} of {amount(resource, limit)}"


def resource_words(resource: str) -> str:
    """Returns the name of a resource in a sentence, such as `core time` or `lab slots`."""
    return {"core_seconds": "core time", "gpu_seconds": "GPU time"}.get(resource, words(resource))


def bare_amount(resource: str, booked: float) -> str:
    """Returns an amount without its unit; money has two decimals unless it is a whole number."""
    is_whole = booked == round(booked)
    if resource != "money" or is_whole or booked >= 1000:
        return number(booked)
    return f"{booked:.2f}"


def change(path: str, old: Any, new: Any) -> str:
    """Returns the difference of two values of a spec, such as `budget.rungs.dft: 10 → 20`."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return "; ".join(change(f"{path}.{name}", old.get(name), new.get(name)) for name in names)
    return f"{path}: {setting(old)} → {setting(new)}"


def setting(value: Any) -> str:
    """Returns a value of a spec or event, cut: a text unchanged, an object as `name: value, …`, others as JSON."""
    if isinstance(value, dict):
        text = ", ".join(f"{words(str(name))}: {setting(part)}" for name, part in value.items())
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SETTING else text[:MAX_SETTING] + "…"


def number(value: float) -> str:
    """Returns a number with three significant digits, or all before the decimal point: `0.123`, `12.3`, `12 345`."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{round(value):,}".replace(",", _THIN)


def amounts(costs: Mapping[str, float], without: str = "") -> str:
    """Returns a text such as `12 345 LLM tokens, 0.50 EUR`. without: a resource to leave out."""
    return ", ".join(amount(name, booked) for name, booked in sorted(costs.items()) if name != without)


EXPLAINED_REPEATABILITY = {
    "molecule": "over {words.repeats}, of each {words.one}, from its own conformers or repeated runs",
    "class": "over {words.repeats}, usual for such {words.many}, not computed for each",
    "simulation": "over replicas of the simulation and blocks of time within them, of each {words.one}",
    "relaxation": "of the relaxation: how far the cell may be from its minimum, of each {words.one}",
    "fit": "together with the leave-one-out error of the fit",
    None: "of the protocol",
}
"""The words for a repeatability, by the kind of the uncertainty; None: the kind is not stated. `words` are those of the
subject."""


REPEATED = {SIMULATION: "over replicas of the simulation", RELAXATION: "of the relaxation"}
"""The words for what was repeated, by the kind of the uncertainty. For any other kind the subject has the words."""

MEANS = (MEAN, WEIGHTED_MEAN, BETWEEN_LIMITS)
"""The kinds of the uncertainty of a value that is made of several measurements."""


def mean_note(kind: str, n: int = 0) -> str:
    """Returns what the value and the ± of a mean of measurements are. kind: one of MEANS. n: number of measurements; 0
    if it is unknown."""
    if kind == BETWEEN_LIMITS:
        return "middle between limits on both sides, ± that of a uniform distribution between them"
    if kind == WEIGHTED_MEAN:
        how = "weighted by 1/σ², ± the larger of its propagated σ and its standard error by the scatter"
    else:
        how = "± its standard error by the scatter"
    return f"mean of {n or 'several'} measurements, {how}"


def uncertainties_text(kinds: Collection[str | None], words: Words) -> str:
    """Returns a sentence without a full stop on what the ± of several values is. kinds: of their uncertainties; None: a
    value of a person or a file, or one that does not say. words: of the subject."""
    of_means = "the standard error of the mean"
    has_means = any(kind in MEANS for kind in kinds)
    computed = {kind for kind in kinds if kind is not None and kind not in MEANS}
    if computed:
        sources = sorted({REPEATED.get(kind, f"over {words.repeats}") for kind in computed})
        repeated = f"the repeatability {' or '.join(sources)}"
        after = f"; of a value pooled from several measurements {of_means}" if has_means else ""
        return f"± is {repeated} (k = 1){after}"
    if has_means:
        after = ", else the standard uncertainty that came with the value" if None in kinds else ""
        return f"± is {of_means} of the several measurements of a candidate (k = 1){after}"
    return "± is the standard uncertainty that came with the value (k = 1)"


def repeatability_text(kind: str | None, words: Words) -> str:
    """Returns what a ± is. kind: of the uncertainty. words: of the subject."""
    if kind in MEANS:
        return uncertainties_text([kind], words)
    explained = EXPLAINED_REPEATABILITY.get(kind, EXPLAINED_REPEATABILITY[None])
    return f"± is the repeatability {explained.format(words=words)}"


def many(n: int, singular: str, plural: str | None = None) -> str:
    """Returns a number with its noun, such as `1 hit` or `12 345 hits`."""
    digits = f"{n:,}".replace(",", _THIN)
    return f"{digits} {singular if n == 1 else plural or singular + 's'}"


WORDS: tuple[tuple[str, str], ...] = (
    ("candidate", "a molecule or crystal in the campaign, identified by its standardised structure"),
    ("class", "of a ±: usual for such candidates, not computed for this one"),
    ("distinct", "of hits: different compounds, by standard InChIKey; tautomers of one compound count once"),
    ("evidence", "a result in the ledger: value, uncertainty, level, cost and origin"),
    ("gate", "limits on a rung's own values; a candidate that misses them goes no further"),
    ("hit", "a candidate that meets every objective at the rung that decides"),
    ("ladder", "the rungs of a campaign, from the cheapest to the one that decides"),
    ("level", "how a value was obtained, such as PBE0/def2-SVP on a GFN2-xTB geometry"),
    ("mean absolute error", "mean distance of a method's values from experiment, regardless of sign"),
    ("mean error", "mean of computed minus measured: by how much a method is too high (+) or too low (-)"),
    ("method's error", "how far a method's values lie from experiment for other compounds; it is not in the ±"),
    ("objective", "what is wanted of a property: limits, or a direction"),
    (
        "P(limits)",
        "probability that the true values lie within all limits, by the method's error or by the candidate's own "
        "measured value",
    ),
    ("recall", "share of all hits among the candidates that were found; an estimate"),
    (
        "repeatability",
        "the ± of a computed value, k = 1: how much it changes over conformer searches (crystals: starting structures; "
        "dynamics: replicas and blocks of time)",
    ),
    ("rung", "one step of the ladder: a calculation with its settings, gate and limits"),
    (
        "expected utility",
        "the utility to expect of a candidate by what is known so far; the utility, once all is answered",
    ),
    ("standard error", "the ± of a value that was measured several times, k = 1: how well their mean is known"),
    ("Spearman", "rank correlation: 1 if two rungs order the candidates alike, 0 if they are unrelated"),
    ("utility", "the objectives in one number, from 0 to 1: the geometric mean of how well each is met"),
    ("verified", "the rung that decides has answered"),
)


MAX_FACTS = 24
"""Largest number of facts that are shown; the JSON of `sciagent explain` has all."""
MAX_ITEMS = 6
"""Largest number of items of a list or an object that are shown."""
MAX_DEPTH = 3
"""Number of nested lists and objects that are shown."""
MAX_CHARACTERS = 160
"""Longest text of one fact."""


def diagnostics_line(diagnostics: Mapping[str, object]) -> str:
    """Returns a line such as `is_metal: no; valence_point: 0, 0, 0`; an empty text without diagnostics.

    Long lists and texts are shortened, and characters that would act on a terminal are escaped. The kinds of
    uncertainties and the computed isomer are left out, since they stand beside the values.
    """
    facts = [(name, value) for name, value in diagnostics.items() if name not in (UNCERTAINTY_KIND, ISOMER)]
    shown = [one_line(f"{name}: {_text(value)}", MAX_CHARACTERS) for name, value in facts[:MAX_FACTS]]
    n_more = len(facts) - len(shown)
    if n_more > 0:
        shown.append(f"and {n_more} more")
    return "; ".join(shown)


def _text(value: object, depth: int = 0) -> str:
    """Returns a JSON value as a text. depth: number of lists and objects around it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if value is None:
        return "none"
    if not isinstance(value, Mapping | list):
        return str(value)
    if depth == MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        items = [f"{name} {_text(item, depth + 1)}" for name, item in islice(value.items(), MAX_ITEMS)]
    else:
        items = [_text(item, depth + 1) for item in value[:MAX_ITEMS]]
    if len(value) > MAX_ITEMS:
        items.append(f"… ({len(value)} in all)")
    text = ", ".join(items)
    return f"({text})" if depth else text or "none"


def let_through_sentence(passed: FilterCounts, hits_defined: bool) -> str:
    """Returns how many hits are among what the filters let through, such as `of the candidates that the law chose 12 of
    30 answered ones are hits, of those let through by lot 0 of 2`. hits_defined: whether an objective has limits."""
    if not hits_defined:
        return f"the law chose {many(passed.chosen.candidates, 'candidate')}, {passed.audited.candidates} came by lot"
    of_chosen = f"{passed.chosen.hits} of {passed.chosen.answered} answered ones"
    of_audited = f"{passed.audited.hits} of {passed.audited.answered}"
    return f"of the candidates that the law chose {of_chosen} are hits, of those let through by lot {of_audited}"
