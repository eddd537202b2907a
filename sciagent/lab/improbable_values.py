"""Improbable answers, which a person confirms once: values outside the usual range of their property, uncertainties
larger than that range, values far from what is known of the candidate, and days that have not come yet.

Nothing is refused here: a person who says that it is right has it recorded. The usual ranges are those of `Property`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Property, properties
from sciagent.domain.quantities import Censoring, Quantity, in_canonical_unit, spread_in_canonical_unit, to_canonical
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.safe_text_and_durations import cut
from sciagent.domain.units import unit_words
from sciagent.errors import UnitError, UsageError
from sciagent.store.campaign_state import campaigns
from sciagent.store.lab.blind_measurements import method_of, open_computations
from sciagent.store.lab.tasks import LabTask
from sciagent.store.results import candidates
from sciagent.store.views.report_candidates import calibrations_by_rung, imported_answers, pooled_by_rung, rung_answers
from sciagent.verification.verifier_contract import ChargeClass

FARTHEST = 5.0
"""Largest distance from a known value that is not asked about, in standard deviations of the two values together."""
SMALLEST_SHARE = 0.1
"""Distance from a known value that is never asked about, as a share of the usual range: two laboratories differ by more
than each states."""
LATEST_CLOCK = timedelta(hours=14)  # the day begins so long before UTC in the easternmost time zone
WHATEVER = "yes"
"""The digest of a sender who need not be asked."""


def digest_of(odd: Sequence[str]) -> str:
    """Returns a short hash of improbable things, with which a person confirms these and no others; empty for none."""
    return hashlib.sha256("\n".join(odd).encode()).hexdigest()[:16] if odd else ""


@dataclass(frozen=True)
class KnownValue:
    """A value that is known of a candidate, with its error against measurements."""

    quantity: Quantity
    """The value in the canonical unit of the property, without the mean error of its method."""
    origin: str
    """The rung or the file that it comes from, with its level."""


def odd_things(
    connection: Connection,
    built: Built,
    task: LabTask,
    measured: Sequence[Measured],
    typed: Mapping[str, Quantity],
    measured_on: str,
) -> tuple[str, ...]:
    """Returns a sentence on each thing of an answer that is improbable. What is known of the candidate is left out
    where the task is blind.

    measured: values in canonical units that the answer adds or changes. typed: the same as they were typed, by
    property. measured_on: day of the measurement, empty without one. Raises UsageError for a text that is no day."""
    odd = [*odd_day(measured_on), *odd_values(measured, typed)]
    if method_of(connection, task) is None:
        candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
        odd += odd_distances(connection, built, task, candidate, measured)
    return tuple(odd)


def odd_day(text: str) -> list[str]:
    """Returns a sentence if the day of the measurement has not come yet. text: empty without a day. Raises
    UsageError for a text that is no day."""
    if not text:
        return []
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f'the day of the measurement "{cut(text, 40)}" is no date; write it as {datetime.now(UTC):%Y-%m-%d}'
        ) from None
    latest_day = (datetime.now(UTC) + LATEST_CLOCK).date()
    return [f"measured on {day}: this day has not come yet"] if day > latest_day else []


def odd_values(measured: Sequence[Measured], typed: Mapping[str, Quantity]) -> list[str]:
    """Returns a sentence for each value outside the usual range of its property, and for each uncertainty that is
    larger than the range.

    measured: values in canonical units. typed: the same as they were typed, by property."""
    sentences = []
    for value in measured:
        name = value.property
        prop = properties()[name]
        if prop.usual is None:
            continue
        low, high = prop.usual
        quantity = value.quantity
        is_outside = not low <= quantity.value <= high
        if is_outside and quantity.censoring is Censoring.NONE:
            sentences.append(
                f"{name}: {_text(quantity)} is outside {_range(prop)}, where nearly all values lie"
                f"{_other_unit(typed[name], prop)}"
            )
        if quantity.uncertainty is not None and quantity.uncertainty > high - low:
            stated = replace(quantity, value=quantity.uncertainty, uncertainty=None, censoring=Censoring.NONE)
            sentences.append(
                f"{name}: the uncertainty of {_plain(stated)} is larger than the range of {_range(prop)}, in which "
                "nearly all values lie"
            )
    return sentences


def _other_unit(typed: Quantity, prop: Property) -> str:
    """Returns a hint if the same number lies in the usual range in another unit of the property, else an empty text."""
    assert prop.usual is not None  # the caller has looked
    low, high = prop.usual
    for unit in prop.units:
        if unit == typed.unit:
            continue
        try:
            value = in_canonical_unit(typed.value, unit, prop)
        except UnitError:  # such as the logarithm of a negative number
            continue
        if low <= value <= high:
            return f"; {typed.value:g} {unit_words(unit)} would lie inside"
    return ""


def odd_distances(
    connection: Connection, built: Built, task: LabTask, candidate: Candidate, measured: Sequence[Measured]
) -> list[str]:
    """Returns a sentence for each value that is far from one that is known of the candidate: measured before, or
    computed by a method whose error against measurements is known. measured: values in canonical units."""
    exact = [value for value in measured if value.quantity.censoring is Censoring.NONE]
    names = {value.property for value in exact}
    known = _known_values(connection, built, task, candidate) if names else {}
    sentences = []
    for value in exact:
        for other in known.get(value.property, ()):
            if is_far(value.quantity, other.quantity, properties()[value.property]):
                sentences.append(
                    f"{value.property}: {_text(value.quantity)} is far from {other.quantity}, {other.origin}"
                )
    return sentences


def is_far(quantity: Quantity, known: Quantity, prop: Property) -> bool:
    """Whether two values of a candidate differ by more than FARTHEST standard deviations of both together, and by more
    than SMALLEST_SHARE of the usual range. Without an uncertainty and a range nothing is far."""
    spread = math.hypot(quantity.uncertainty or 0.0, known.uncertainty or 0.0)
    width = 0.0 if prop.usual is None else prop.usual[1] - prop.usual[0]
    allowed = max(FARTHEST * spread, SMALLEST_SHARE * width)
    return allowed > 0 and abs(quantity.value - known.value) > allowed


def _known_values(
    connection: Connection, built: Built, task: LabTask, candidate: Candidate
) -> dict[str, list[KnownValue]]:
    """Returns the known values of a candidate by property, without those of the task itself and of blind measurements
    that are not all made."""
    row = campaigns.get(connection, task.campaign)
    ladder = campaigns.rungs(connection, row.id)
    rungs = {rung.spec.rung: rung for rung in built.rungs}
    own_source = f"task {task.id}"
    found = rung_answers(connection, row, ladder, [task.candidate_id]).get(task.candidate_id, [])
    hidden = open_computations(connection, task.candidate_id)
    seen = {rung.name for rung in ladder if rung.computation not in hidden}
    others = [answer for answer in found if answer.source != own_source and answer.rung in seen]
    imported = imported_answers(connection, [task.candidate_id]).get(task.candidate_id, [])
    known: dict[str, list[KnownValue]] = {}
    for answer in pooled_by_rung(others, calibrations_by_rung(ladder), {}):
        for value in answer.measured:
            quantity = _comparable(rungs.get(answer.rung), value, candidate)
            if quantity is not None:
                origin = f"the value of {answer.rung} ({value.level.label})"
                known.setdefault(value.property, []).append(KnownValue(quantity, origin))
    for answer in imported:
        for value in answer.measured:
            if value.level.is_experiment and value.quantity.censoring is Censoring.NONE:
                canonical = to_canonical(value.quantity, properties()[value.property])
                known.setdefault(value.property, []).append(KnownValue(canonical, f"the value of {answer.source}"))
    return known


def _comparable(rung: BuiltRung | None, value: Measured, candidate: Candidate) -> Quantity | None:
    """Returns a rung's value as one of a measurement, with the error of its method; None for a limit, or if the error
    is unknown."""
    prop = properties()[value.property]
    quantity = to_canonical(value.quantity, prop)
    if rung is None or quantity.censoring is not Censoring.NONE:
        return None
    if quantity.uncertainty_kind == "fit":
        return quantity
    if rung.verifier.tier is Tier.WORLD:
        # the uncertainty of a mean is smaller than the spread of the single measurements
        uncertainty = None if quantity.uncertainty is None else quantity.uncertainty * math.sqrt(quantity.n)
        return replace(quantity, uncertainty=uncertainty)
    charge = ChargeClass.of(candidate.charge)
    for error in rung.verifier.method_errors:
        is_of_value = error.holds_for(prop.name, value.level) and error.holds_for_charge(charge)
        if is_of_value and error.reference == "experiment":
            typical = error.mean_absolute_error if error.root_mean_square is None else error.root_mean_square
            spread = spread_in_canonical_unit(quantity.value, typical, error.unit, prop)
            shift = spread_in_canonical_unit(quantity.value, error.mean_error, error.unit, prop)
            uncertainty = math.hypot(spread, quantity.uncertainty or 0.0)
            return replace(quantity, value=quantity.value - shift, uncertainty=uncertainty, as_typed=None)
    return None


def _text(quantity: Quantity) -> str:
    """Returns a value in the canonical unit, with what was typed before it if that was in another unit."""
    text = _plain(quantity)
    typed = quantity.as_typed or ""
    is_other = bool(typed) and not typed.endswith(f" {quantity.unit}") and quantity.unit != "1"
    return f"{typed}, which is {text}," if is_other else text


def _plain(quantity: Quantity) -> str:
    tail = "" if quantity.unit == "1" else f" {unit_words(quantity.unit)}"
    return f"{quantity.value:.4g}{tail}"


def _range(prop: Property) -> str:
    assert prop.usual is not None  # the caller has looked
    low, high = prop.usual
    tail = "" if prop.unit == "1" else f" {unit_words(prop.unit)}"
    return f"{low:g} to {high:g}{tail}"
