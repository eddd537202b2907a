"""Texts that people typed, read as an answer. A decimal comma or a unit that does not fit is refused with the fix."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sciagent.domain.jobs.lab import NOT_OBTAINED, LabAnswer
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import Property, properties
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.units import unit_words
from sciagent.errors import UnitError, UnknownNameError, UsageError, did_you_mean

NUMBER = re.compile(
    r"(?P<sign>[<>]?) ?(?P<digits>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"(?: ?(?:±|\+/-) ?(?P<spread>[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?))? ?(?P<unit>[^0-9<>±+.-].*)?"
)
SPELLED = {"\u2212": "-", "\u2013": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u00b5": "u", "\u03bc": "u"}
UNITS = {
    "°C": "degC",
    "C": "degC",
    "M": "mol/L",
    "mM": "mmol/L",
    "uM": "umol/L",
    "nM": "nmol/L",
    "%": "%",
    "ε": "L/mol/cm",
}
MEANINGS = {"standard": 1.0, "interval_95": 1 / 1.959964, "tolerance": 1 / math.sqrt(3)}
"""{what ± means: factor to one standard uncertainty}; a tolerance is a uniform distribution (JCGM 100, 4.3.7)."""
MOST_READINGS = 1000
NOTHING = ("n.d.", "nd", "n/a", "na", "none", "-", "?")  # what people write where there is no value


def typed_answer(said: Mapping[str, Any]) -> LabAnswer:
    """Returns the answer. said: `values` and `uncertainties` by property, `limit`, `not_obtained`; where a
    form asked, also `means` (one of MEANINGS), `readings`, whose mean stands in `values`, and `grades` by property.

    Raises UsageError with the fix for a text that is no number, and for values beside `not_obtained`."""
    if text := said.get("not_obtained"):
        if said["values"]:
            raise UsageError("there are values, and a reason why there are none; give one of the two")
        if text not in NOT_OBTAINED:
            raise UsageError(
                f'"{text}" is no reason{did_you_mean(text, NOT_OBTAINED)}; one of: {", ".join(NOT_OBTAINED)}'
            )
        return LabAnswer(not_obtained=Reason(text))
    if grades := said.get("grades"):
        return LabAnswer(grades=dict(grades))
    if not said["values"]:
        raise UsageError("no value was given, and no reason why it was not obtained")
    spreads = said["uncertainties"]
    for name in spreads:
        if name not in said["values"]:
            raise UsageError(f"an uncertainty of {name}, but no value")
    means, readings = said.get("means", {}), said.get("readings", {})
    return LabAnswer(
        {
            name: _meant(typed(name, text, spreads.get(name), said["limit"]), means.get(name, ""), readings.get(name))
            for name, text in said["values"].items()
        }
    )


def mean_of(name: str, text: str) -> tuple[str, str, int]:
    """Returns (mean, standard error, number) of readings, as texts. text: numbers between spaces, semicolons or lines.

    Raises UsageError for fewer than two readings, or one that is no number."""
    given = re.split(r"[\s;]+", "".join(SPELLED.get(letter, letter) for letter in text).strip(" ;\n\t"))
    if not 2 <= len(given) <= MOST_READINGS:
        raise UsageError(f"{name}: {len(given)} reading; give 2 to {MOST_READINGS}, or type the value above")
    wrong = next((each for each in given if NUMBER.fullmatch(each) is None or "<" in each or ">" in each), None)
    if wrong is not None:
        raise UsageError(f'{name}: the reading "{wrong[:40]}" is no number{_hint(wrong)}')
    values = [float(each) for each in given]
    digits = max(len(each.partition(".")[2]) for each in given)
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):.{digits + 1}f}", f"{error:.3g}", len(values)


def _meant(quantity: Quantity, means: str, readings: str | None) -> Quantity:
    """Returns the quantity with its standard uncertainty (k = 1). means: what the person says that ± is."""
    n = len(re.split(r"[\s;]+", readings.strip(" ;\n\t"))) if readings else 1
    if means and means not in MEANINGS:
        raise UsageError(f'"{means[:40]}" is no meaning of ±; one of: {", ".join(MEANINGS)}')
    factor = MEANINGS[means or "standard"]
    spread = None if quantity.uncertainty is None else quantity.uncertainty * factor
    return replace(quantity, uncertainty=spread, n=n)


def typed(name: str, text: str, spread: str | None = None, limit: str = "") -> Quantity:
    """Returns a quantity as it was typed, such as `12.3 mg/L`, `<0.05 mM` or `12.3±0.1 °C`. Raises UsageError with what
    would be right."""
    known = properties()
    if name not in known:
        raise UnknownNameError("property", name, known)
    plain = "".join(SPELLED.get(letter, letter) for letter in text).strip()
    found = NUMBER.fullmatch(plain)
    if found is None or "," in plain:
        raise UsageError(f'{name}: "{text}" is no number with a unit{_hint(plain)}')
    digits, unit = found["digits"], _unit(name, (found["unit"] or "").strip(), known[name])
    if found["spread"] and spread is not None:
        raise UsageError(f"{name}: the uncertainty is given twice, as {found['spread']} and as {spread}")
    censoring = {"<": Censoring.BELOW, ">": Censoring.ABOVE}.get(found["sign"], Censoring(limit or "none"))
    as_typed = f"{found['sign']}{digits}{'' if unit == '1' else ' ' + unit}"
    return Quantity(float(digits), unit, _number(name, found["spread"] or spread), censoring, as_typed=as_typed)


def _hint(plain: str) -> str:
    if plain.lower() in NOTHING:
        return "; where there is no value, say why: it was not obtained, or give the task back"
    if re.search(r"[0-9],[0-9]", plain):
        return "; write a decimal point: " + plain.replace(",", ".")
    return "; write it as 12.3 mg/L, <0.05 mg/L or 12.3 ± 0.1 mg/L"


def _unit(name: str, text: str, prop: Property) -> str:
    unit = text if text in prop.units else UNITS.get(text, text)
    if not unit and "1" in prop.units:
        return "1"
    if not unit:
        raise UsageError(f"{name}: the number has no unit; one of: {_listed(prop)}")
    if unit not in prop.units:
        raise UnitError(f'{name} is not given in "{text}"{did_you_mean(unit, prop.units)}; it takes: {_listed(prop)}')
    return unit


def _listed(prop: Property) -> str:
    return ", ".join(map(unit_words, prop.units))


def _number(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f'{name}: the uncertainty "{text}" is no number, at least 0')
    return value
