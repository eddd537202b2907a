"""Reads texts that people typed as an answer (`typed_answer`), a quantity (`typed`) or the mean of readings
(`mean_of`). `with_earlier` adds the quantities of an earlier answer that a later one does not name, and
`answer_in_words` says in one line what the texts say.

`read_number` is the only function that reads their numbers: forms, sheets, instruments and the command line call it. A
decimal comma, a unit that does not fit, or a number that is not finite is refused, and the message says what would be
right.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from sciagent.domain.lab_messages_and_codes import MEANING_WORDS, NOT_OBTAINED, LabAnswer
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import Property, properties
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.safe_text_and_durations import cut
from sciagent.domain.units import unit_words
from sciagent.errors import UnitError, UnknownNameError, UsageError, did_you_mean

_DIGITS = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(
    rf"(?P<sign>[<>]?) ?(?P<digits>[+-]?{_DIGITS})(?: ?(?:±|\+/-) ?(?P<spread>{_DIGITS}))?"
    r"(?: ?(?P<unit>[^0-9<>±+.-].*)| (?P<one>1))?"
)
# {character that people use in numbers: character that this module reads}
PLAIN_CHARACTERS = {
    "\u2212": "-",
    "\u2013": "-",
    "\u00a0": " ",
    "\u202f": " ",
    "\u2009": " ",
    "\u00b5": "u",
    "\u03bc": "u",
    "\u212b": "\u00c5",  # the sign for angstrom
}
# {unit as people spell it: unit of a property}; the words of a refusal are taken besides
UNIT_SPELLINGS = {
    "°C": "degC",
    "C": "degC",
    "M": "mol/L",
    "mM": "mmol/L",
    "uM": "umol/L",
    "nM": "nmol/L",
    "%": "%",
    "ε": "L/mol/cm",
    "mol/l": "mol/L",
    "mmol/l": "mmol/L",
    "umol/l": "umol/L",
    "nmol/l": "nmol/L",
    "g/l": "g/L",
    "mg/l": "mg/L",
    "ug/l": "ug/L",
    "mg/ml": "mg/mL",
    "ug/ml": "ug/mL",
    "ng/ml": "ng/mL",
}
MEANINGS = {"standard": 1.0, "interval_95": 1 / 1.959964, "tolerance": 1 / math.sqrt(3)}
"""{what ± means: factor to one standard uncertainty}; a tolerance is a uniform distribution (JCGM 100, 4.3.7)."""
MAX_READINGS = 1000
MAX_NUMBER_LENGTH = 200  # characters of a number with its unit
LARGEST_NUMBER = 1e50
"""Largest number that a person may type. An uncertainty is 0 or at least 1 / LARGEST_NUMBER. So all weights and squares
of such numbers are finite, and no later sum fails."""
MAX_DECIMAL_PLACES = 30
"""Largest number of decimal places of a mean; a mean that needs more is written with an exponent."""
NO_VALUE_TEXTS = ("n.d.", "nd", "n/a", "na", "none", "-", "?")  # what people write where there is no value


@dataclass(frozen=True)
class TypedNumber:
    """A number as a person typed it."""

    sign: str
    """`<` or `>` for a limit; empty for an exact value."""
    digits: str
    """The digits as they were typed, with sign and exponent."""
    value: float
    """The number that `digits` spells; it is finite."""
    spread: str
    """The digits after `±`; empty without an uncertainty."""
    unit: str
    """The unit as it was typed; empty without one, and `1` where the person says that it is a plain number."""

    @property
    def is_bare(self) -> bool:
        """Whether it is a number alone, without limit, uncertainty and unit."""
        return not (self.sign or self.spread or self.unit)


def read_number(name: str, text: str, what: str = "") -> TypedNumber:
    """Returns the number that a person typed, such as `12.3 mg/L`, `<0.05 mM` or `12.3±0.1 °C`.

    name: the property, which begins the message. what: `reading`, `uncertainty` or such for a number that stands alone;
    empty for a value, which may have a limit, an uncertainty and a unit. Raises UsageError, with what would be right,
    for a text that is no number, and for a number whose size is above LARGEST_NUMBER or too small to be told from 0.
    """
    plain = _plain_spelling(text)
    if len(plain) > MAX_NUMBER_LENGTH:
        raise UsageError(f'{name}: "{cut(plain, 40)}" has {len(plain):,} characters; a number has {MAX_NUMBER_LENGTH}')
    match = _NUMBER.fullmatch(plain)
    given = f'the {what} "{cut(text, 40)}"' if what else f'"{cut(text, 80)}"'
    if match is None or "," in plain:
        kind = "is no number" if what else "is no number with a unit"
        raise UsageError(f"{name}: {given} {kind}{_hint(name, plain, what)}")
    digits = match["digits"]
    unit = (match["unit"] or match["one"] or "").strip()
    number = TypedNumber(match["sign"], digits, float(digits), match["spread"] or "", unit)
    if what and not number.is_bare:
        raise UsageError(f"{name}: {given} is no number{_hint(name, plain, what)}")
    if abs(number.value) > LARGEST_NUMBER:
        raise UsageError(
            f"{name}: {given} is too large; no quantity is above {LARGEST_NUMBER:g}, so look at its exponent"
        )
    if number.value == 0 and Decimal(number.digits) != 0:
        raise UsageError(f"{name}: {given} is too small to be told from 0; look at its exponent")
    return number


def _plain_spelling(text: str) -> str:
    """Returns a text without spaces around it, and with the signs that numbers are written with here."""
    return "".join(PLAIN_CHARACTERS.get(letter, letter) for letter in text).strip()


def typed_answer(texts: Mapping[str, Any], stated_units: Mapping[str, str] = MappingProxyType({})) -> LabAnswer:
    """Returns the answer that the texts of a form say.

    texts: `values` and `uncertainties` by property, `limit`, and `not_obtained`, the reason for which no quantity has a
    value. Where a form asked, there are also, by property, `means` (one of MEANINGS), `readings` (whose mean stands in
    `values`), `grades`, and `reasons`, for which this quantity alone has no value. stated_units: {quantity: unit that
    the campaign states for it}, for texts that a person enters now; texts of the ledger were read with theirs. Raises
    UsageError with what would be right for a text that is no number, and for a value beside its reason.
    """
    whole_reason = texts.get("not_obtained")
    reason_texts = texts.get("reasons", {})
    if whole_reason:
        if texts["values"] or reason_texts:
            raise UsageError(
                "there are values, and a reason why no quantity has one; give one of the two, or name the quantity "
                "that the reason is about"
            )
        return LabAnswer(not_obtained=_reason(whole_reason))
    grades = texts.get("grades")
    if grades:
        return LabAnswer(grades=dict(grades))
    if not texts["values"] and not reason_texts:
        raise UsageError("no value was given, and no reason why it was not obtained")
    reasons = {}
    for name, text in reason_texts.items():
        if name not in properties():
            raise UnknownNameError("property", name, properties())
        if name in texts["values"]:
            raise UsageError(f"{name}: there is a value, and a reason why there is none; give one of the two")
        reasons[name] = _reason(text, name)
    spreads = texts["uncertainties"]
    for name in spreads:
        if name not in texts["values"]:
            raise UsageError(f"an uncertainty of {name}, but no value")
    means = texts.get("means", {})
    readings = texts.get("readings", {})
    values = {}
    for name, text in texts["values"].items():
        quantity = typed(name, text, spreads.get(name), limit=texts["limit"], stated_unit=stated_units.get(name))
        values[name] = _with_standard_uncertainty(quantity, means.get(name, ""), readings.get(name))
    return LabAnswer(values, reasons=reasons)


def _reason(text: str, name: str = "") -> Reason:
    """Returns a reason why there is no value. name: the property; empty for a reason of the whole answer. Raises
    UsageError for another text."""
    if text not in NOT_OBTAINED:
        where = f"{name}: " if name else ""
        hint = did_you_mean(text, NOT_OBTAINED)
        raise UsageError(f'{where}"{cut(text, 40)}" is no reason{hint}; one of: {", ".join(NOT_OBTAINED)}')
    return Reason(text)


PARTS = ("values", "uncertainties", "means", "readings", "grades", "reasons")
"""The parts of an answer's texts that are mappings by property."""
KEPT = "kept"
"""The entry of an answer's texts with the names of the quantities that stay as they were entered before."""
LIMIT_SIGNS = {"below": "<", "above": ">"}  # {limit that was chosen for all values together: its sign}


def named_in(texts: Mapping[str, Any]) -> set[str]:
    """Returns the names of the quantities that an answer's texts say something of."""
    return {*texts.get("values", {}), *texts.get("grades", {}), *texts.get("reasons", {})}


def with_earlier(texts: Mapping[str, Any], earlier: Mapping[str, Any], asked: Sequence[str]) -> Mapping[str, Any]:
    """Returns the texts of an answer, with the quantities that they do not name as in an earlier answer.

    The entry `kept` then has the names of these quantities. A reason for the whole answer leaves nothing to keep.
    asked: names of the quantities that the task asks for.
    """
    if texts.get("not_obtained"):
        return texts
    earlier_reasons = dict(earlier.get("reasons", {}))
    if earlier.get("not_obtained"):
        earlier_reasons = dict.fromkeys(asked, earlier["not_obtained"])
    signed_earlier = _with_signs(earlier) | {"reasons": earlier_reasons}
    kept = [name for name in asked if name in named_in(signed_earlier) and name not in named_in(texts)]
    if not kept:
        return texts
    completed = _with_signs(texts)
    for part in PARTS:
        entries = {name: text for name, text in signed_earlier.get(part, {}).items() if name in kept}
        if entries:
            completed[part] = {**completed.get(part, {}), **entries}
    return completed | {KEPT: kept}


def _with_signs(texts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the texts of an answer in which each value has its own sign of a limit."""
    sign = LIMIT_SIGNS.get(texts.get("limit", ""), "")
    signed_values = {}
    for name, text in texts.get("values", {}).items():
        has_sign = text.lstrip().startswith(("<", ">"))
        signed_values[name] = text if has_sign else f"{sign}{text}"
    return {**texts, "values": signed_values, "limit": ""}


def answer_in_words(typed_texts: Mapping[str, Any]) -> str:
    """Returns what a submission says, in one line. typed_texts: its texts as they were typed."""
    parts = []
    if typed_texts.get("not_obtained"):
        parts = [f"not obtained: {typed_texts['not_obtained'].replace('_', ' ')}"]
    parts += [f"{name}: {grade}" for name, grade in typed_texts.get("grades", {}).items()]
    for name, value in typed_texts.get("values", {}).items():
        parts.append(f"{name} {value}{_uncertainty_in_words(typed_texts, name)}")
    for name, reason in typed_texts.get("reasons", {}).items():
        parts.append(f"{name} not obtained: {reason.replace('_', ' ')}")
    comment = f" “{typed_texts['comment']}”" if typed_texts.get("comment") else ""
    return ", ".join(parts) + comment


def _uncertainty_in_words(typed_texts: Mapping[str, Any], name: str) -> str:
    """Returns what an answer says of the uncertainty of a quantity: its ±, what that means, and the readings."""
    words = ""
    stated = typed_texts.get("uncertainties", {}).get(name)
    if stated:
        words = f" ± {stated}"
        meaning = MEANING_WORDS.get(typed_texts.get("means", {}).get(name, ""))
        if meaning:
            words += f" ({meaning})"
    readings = typed_texts.get("readings", {}).get(name)
    return f"{words} (mean of {readings})" if readings else words


def mean_of(name: str, text: str) -> tuple[str, str, int]:
    """Returns (mean, standard error, number) of readings, as texts. text: numbers between spaces, semicolons or lines.

    Raises UsageError for fewer than two readings, or one that is no number."""
    reading_texts = _split_readings(text)
    if not 2 <= len(reading_texts) <= MAX_READINGS:
        raise UsageError(f"{name}: {len(reading_texts)} reading; give 2 to {MAX_READINGS}, or type the value above")
    readings = [read_number(name, each, what="reading") for each in reading_texts]
    values = [reading.value for reading in readings]
    mean = statistics.fmean(values)
    error = statistics.stdev(values) / math.sqrt(len(values))
    # the mean is known to one more place than the readings, or to two digits of its error
    places_of_readings = max(_places(reading) for reading in readings)
    places = max(places_of_readings + 1, _places_of_two_digits(error))
    mean_text = f"{mean:.{places}f}" if places <= MAX_DECIMAL_PLACES else f"{mean:.9e}"
    return mean_text, f"{error:.3g}", len(readings)


def _split_readings(text: str) -> list[str]:
    """Returns the texts of the readings, which have spaces, semicolons or lines between them."""
    return re.split(r"[\s;]+", _plain_spelling(text).strip(" ;\n\t"))


def _places_of_two_digits(error: float) -> int:
    """Returns the number of decimal places that show two digits of a standard error. Rounding the mean to them moves it
    by at most a twentieth of its error."""
    return max(0, 1 - math.floor(math.log10(error))) if error > 0 else 0


def _places(number: TypedNumber) -> int:
    """Returns the number of decimal places of a number as it was typed: 2 for `4.31`, 5 for `1.2e-4`."""
    if number.value == 0:
        return len(number.digits.partition(".")[2])
    exponent = Decimal(number.digits).as_tuple().exponent
    assert isinstance(exponent, int)  # the number is finite
    return max(0, -exponent)


def _with_standard_uncertainty(quantity: Quantity, means: str, readings: str | None) -> Quantity:
    """Returns the quantity with its standard uncertainty (k = 1) and number of readings.

    means: meaning of ± by the person's words; empty for a standard deviation. readings: text with the readings."""
    n = len(_split_readings(readings)) if readings else 1
    if means and means not in MEANINGS:
        raise UsageError(f'"{means[:40]}" is no meaning of ±; one of: {", ".join(MEANINGS)}')
    factor = MEANINGS[means or "standard"]
    spread = None if quantity.uncertainty is None else quantity.uncertainty * factor
    return replace(quantity, uncertainty=spread, n=n)


def typed(name: str, text: str, spread: str | None = None, limit: str = "", stated_unit: str | None = None) -> Quantity:
    """Returns a quantity as it was typed, such as `12.3 mg/L`, `<0.05 mM` or `12.3±0.1 °C`.

    spread: uncertainty that was typed apart. limit: censoring that was chosen apart. stated_unit: unit that the
    campaign states for the quantity; None if it states none. Raises UsageError with what would be right.
    """
    known = properties()
    if name not in known:
        raise UnknownNameError("property", name, known)
    number = read_number(name, text)
    unit = _unit(name, number.unit, known[name], stated_unit)
    if number.spread and spread is not None:
        raise UsageError(f"{name}: the uncertainty is given twice, as {number.spread} and as {cut(spread, 40)}")
    chosen_censoring = Censoring(limit or "none")
    censoring = {"<": Censoring.BELOW, ">": Censoring.ABOVE}.get(number.sign, chosen_censoring)
    if chosen_censoring not in (Censoring.NONE, censoring):
        contradiction = f'"{cut(text, 40)}" says {censoring}, and {chosen_censoring} was chosen'
        raise UsageError(f"{name}: {contradiction}; give one of the two")
    as_typed = f"{number.sign}{number.digits}{'' if unit == '1' else ' ' + unit}"
    uncertainty = _uncertainty(name, number.spread or spread)
    return Quantity(number.value, unit, uncertainty, censoring, as_typed=as_typed)


def _hint(name: str, plain: str, what: str) -> str:
    """Returns what would be right in place of a text that is no number. name, what: as in `read_number`."""
    if plain.lower() in NO_VALUE_TEXTS:
        return "; where there is no value, say why: it was not obtained, or give the task back"
    number = cut(plain, 80)
    # such as 1,234.5
    if re.match(r"[<>]? ?[+-]?[0-9]{1,3}(,[0-9]{3})+\.[0-9]", plain):
        return "; write it without commas between the thousands: " + number.replace(",", "")
    # such as 12,5, with a single comma
    if "." not in plain and re.search(r"[0-9],[0-9]", plain) and not re.search(r"[0-9],[0-9]+,", plain):
        return "; write a decimal point: " + number.replace(",", ".")
    if what == "reading" and "," in plain:
        return "; put spaces, semicolons or lines between the readings"
    if what == "reading" and re.search(r"[A-Za-z°%]", plain):
        return "; write the readings without a unit: they are in the unit that is chosen above"
    if what == "uncertainty":
        return ", at least 0; write it in the unit of the value, and without its unit"
    if what:
        return "; write it as a number alone, such as 12.3"
    prop = properties().get(name)
    unit = "" if prop is None or "1" in prop.units else f" {unit_words(prop.units[0])}"
    return f"; write it as 12.3{unit}, <0.05{unit} or 12.3 ± 0.1{unit}"


def _unit(name: str, text: str, prop: Property, stated: str | None) -> str:
    """Returns the unit of a number. text: the unit as it was typed. stated: as for `typed`.

    A number alone is a plain number where the quantity can be one, unless the campaign states another unit: it may then
    be meant in that one. Raises UsageError or UnitError for a unit that does not fit, or is missing."""
    unit = _spelled(text, prop)
    if not unit and "1" in prop.units and stated in (None, "1"):
        return "1"
    if not unit:
        raise UsageError(f"{name}: the number has no unit; one of: {_listed(prop, stated)}")
    if unit not in prop.typed_units:
        # whether it is the unit of another kind of quantity
        is_known = any(_spelled(text, other) in other.units for other in properties().values())
        nearest = "" if is_known else did_you_mean(unit, prop.typed_units)
        raise UnitError(f'{name} is not given in "{cut(text, 40)}"{nearest}; it takes: {_listed(prop)}')
    return unit


def _spelled(text: str, prop: Property) -> str:
    """Returns the unit of a property that a text is a spelling of; any other text as it is. Each word that a refusal
    lists is a spelling."""
    for unit in prop.typed_units:
        if text in (unit, _plain_spelling(unit_words(unit))):
            return unit
    return UNIT_SPELLINGS.get(text, text)


def _listed(prop: Property, first: str | None = None) -> str:
    """Returns the units that may be typed, as words. first: the unit that the campaign states, which then begins the
    list, and a plain number ends it."""
    if first is None:
        return ", ".join(map(unit_words, prop.typed_units))
    units = [first, *(unit for unit in prop.typed_units if unit not in (first, "1"))]
    words = [unit_words(unit) for unit in units]
    if "1" in prop.units:
        words.append("1 (the logarithm)" if prop.unit == "1" and prop.conversions else "1 (a plain number)")
    return ", ".join(words)


def _uncertainty(name: str, text: str | None) -> float | None:
    """Returns a standard uncertainty; None without a text. Raises UsageError if it is no finite number, at least 0."""
    if text is None:
        return None
    value = read_number(name, text, what="uncertainty").value
    smallest = 1 / LARGEST_NUMBER
    if value < 0:
        raise UsageError(f'{name}: the uncertainty "{cut(text, 40)}" is no number, at least 0')
    if 0 < value < smallest:
        raise UsageError(f'{name}: the uncertainty "{cut(text, 40)}" is no number, 0 or at least {smallest:g}')
    return value
