"""Distances of the candidates' values from the limits of the objectives (`margins`), with the error of the method
(`method_errors`), and measurements that contradict a verdict (`contradiction`).

The error of a rung's method comes from imported measurements of candidates that the rung has answered, if there are
enough; otherwise from the benchmark that the rung's verifier declares for this property and level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Protocol

from sqlalchemy.engine import Connection

from sciagent.domain.answers.candidate_and_value_answers import MEASURED, IsomerAnswer, LimitMargin, MethodFigures
from sciagent.domain.display_units import chosen_unit_of
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured, file_of, pooled, pooled_measured
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import Property, properties
from sciagent.domain.quantities import Censoring, Quantity, from_canonical, spread_in_canonical_unit, to_canonical
from sciagent.domain.rung_calibration_on_measurements import Fit, Fits
from sciagent.errors import UnknownNameError, UsageError
from sciagent.report.parts.rung_and_judge_agreement import MIN_PAIRS, PROPERTIES_ON_METHOD_SCALE
from sciagent.report.parts.wording import missed_property
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import progress_and_comparisons
from sciagent.store.views.report_candidates import EvidenceAnswer
from sciagent.store.views.report_queries import has_measured
from sciagent.verification.verifier_contract import MethodError
from sciagent.verification.verifier_registry import verifier_class


@dataclass(frozen=True)
class MethodErrors:
    """The errors of a campaign's rungs against experiment."""

    measured: Mapping[tuple[str, str], MethodFigures]
    """{(rung, property): errors over shared molecules}, in the units of the campaign."""
    declared: Mapping[str, tuple[MethodError, ...]]
    """{rung: errors that its verifier declares}."""
    fits: Mapping[str, Fits] = field(default_factory=dict)
    """{rung: calibrations by property}; a calibrated value has the error of its fit."""

    def figures(self, rung: str, measured: Measured) -> MethodFigures | None:
        """Returns the errors that hold for a value of a rung, in the unit of the value; None if nothing is known."""
        prop = properties()[measured.property]
        fit = self.fits.get(rung, {}).get(prop.name)
        errors = self.measured.get((rung, prop.name))
        if fit:
            errors = _leave_one_out_error(fit, prop)
        elif errors is None:
            declared = [error for error in self.declared.get(rung, ()) if error.holds_for(prop.name, measured.level)]
            if not declared:
                return None
            errors = _as_declared(declared[0])
        return _in_unit(errors, prop, measured.quantity)


def method_errors(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> MethodErrors:
    """Returns the errors of the rungs for the properties of the objectives."""
    wanted = [objective["property"] for objective in row.spec.get("objectives", ())]
    imported = set(progress_and_comparisons.imported_properties(connection, row))
    # an energy on the scale of a method has no common zero with experiment
    comparable = [name for name in wanted if name in imported and name not in PROPERTIES_ON_METHOD_SCALE]
    from_measured: dict[tuple[str, str], MethodFigures] = {}
    for name in comparable:
        for rung in ladder:
            if has_measured(connection, rung, name):
                figures = _from_measured(connection, row, rung, name)
                if figures is not None:
                    from_measured[rung.name, name] = figures
    declared = {rung.name: _declared(rung.verifier) for rung in ladder}
    fits = {rung.name: rung.fits for rung in ladder}
    return MethodErrors(from_measured, declared, fits)


def margins(
    row: CampaignRow,
    ladder: Sequence[RungRow],
    highest: Mapping[str, tuple[EvidenceAnswer, Measured]],
    errors: MethodErrors,
) -> tuple[LimitMargin, ...]:
    """Returns the distance of each objective's value from its limits, in the unit of the value.

    highest: values in the campaign's units, by property. An objective without limits, a value that is only a bound, and
    a value of a lower rung than the one that decides have no distance: the limits are not on that rung's scale.
    """
    deciding = {name: rung.name for rung in ladder for name in rung.decides or ()}
    limit_margins = []
    for objective in row.spec.get("objectives", ()):
        limits = [edge for edge in objective.get("accept") or () if edge is not None]
        if not limits or objective["property"] not in highest:
            continue
        answer, measured = highest[objective["property"]]
        if measured.quantity.censoring is not Censoring.NONE:
            continue
        if deciding.get(measured.property, answer.rung) != answer.rung:
            continue
        if measured.property not in properties():
            continue  # a function of a notebook defines it, and this process does not have that function
        quantity = measured.quantity
        prop = properties()[objective["property"]]
        limit_margins.append(
            LimitMargin(
                property=prop.name,
                rung=answer.rung,
                margin=_margin(quantity, prop, objective["accept"]),
                unit=quantity.unit,
                repeatability=quantity.uncertainty,
                uncertainty_kind=quantity.uncertainty_kind if quantity.uncertainty else None,
                isomer=IsomerAnswer.of(quantity.isomer),
                method=errors.figures(answer.rung, measured),
            )
        )
    return tuple(limit_margins)


def _margin(quantity: Quantity, prop: Property, accept: Sequence[float | None]) -> float:
    """Returns the distance from the nearest limit; negative outside. accept: (low, high) in the canonical unit."""
    edges: list[float | None] = []
    for edge in accept:
        in_unit = None if edge is None else from_canonical(Quantity(edge, prop.unit), prop, quantity.unit).value
        edges.append(in_unit)
    if _is_falling(prop, quantity.unit):
        edges.reverse()  # the lower limit of the energy is the upper limit of the wavelength
    low, high = edges
    distances = []
    if low is not None:
        distances.append(quantity.value - low)
    if high is not None:
        distances.append(high - quantity.value)
    return min(distances)


def _mean(replicates: progress_and_comparisons.Replicates) -> float:
    """Returns the pooled value of replicates."""
    values = [value for value, _ in replicates.values]
    uncertainties = [uncertainty for _, uncertainty in replicates.values]
    mean, _ = pooled(values, uncertainties)
    return mean


def _from_measured(connection: Connection, row: CampaignRow, rung: RungRow, name: str) -> MethodFigures | None:
    """Returns the errors over the candidates that have a measured value, replicates pooled; None for too few.

    A candidate that was measured by several methods counts once, with the mean of its errors.
    """
    pairs = []
    # lower=None: the rung's values are compared with imported values
    candidate_pairs = progress_and_comparisons.replicate_pairs(
        connection, row, lower=None, upper=rung, property_name=name
    )
    for imported, of_rung, _ in candidate_pairs:
        if not imported.is_censored and not of_rung.is_censored:
            pairs.append((imported, _mean(of_rung)))
    level_ids = {imported.level_id for imported, _ in pairs}
    experimental = progress_and_comparisons.experimental_levels(connection, sorted(level_ids))
    errors_by_candidate: dict[int, list[float]] = {}
    for imported, computed in pairs:
        if imported.level_id in experimental:
            errors_by_candidate.setdefault(imported.candidate_id, []).append(computed - _mean(imported))
    errors = [fmean(of_candidate) for of_candidate in errors_by_candidate.values()]
    if len(errors) < MIN_PAIRS:
        return None
    return MethodFigures(
        n=len(errors),
        mean_error=fmean(errors),
        mean_absolute_error=fmean(abs(error) for error in errors),
        unit=chosen_unit_of(name, row.units),
        chemistry="candidates of this campaign",
        reference="experiment",
        source=MEASURED,
    )


def _leave_one_out_error(fit: Fit, prop: Property) -> MethodFigures:
    """Returns the leave-one-out error of a calibration, in the canonical unit."""
    return MethodFigures(
        n=fit.n,
        mean_error=0.0,
        mean_absolute_error=fit.mean_absolute_error,
        unit=prop.unit,
        chemistry="the candidates of the fit, each left out in turn",
        reference=fit.measured_level,
        source=MEASURED,
    )


def _declared(verifier: str) -> tuple[MethodError, ...]:
    """Returns the errors that a verifier declares; none for a verifier that this machine does not have."""
    try:
        return verifier_class(verifier).method_errors
    except (UnknownNameError, UsageError):  # the ledger may come from a machine with other verifiers
        return ()


def _as_declared(error: MethodError) -> MethodFigures:
    """Returns declared errors, in the unit of the declaration."""
    return MethodFigures(**{name: getattr(error, name) for name in MethodFigures.model_fields})


def _in_unit(errors: MethodFigures, prop: Property, value: Quantity) -> MethodFigures:
    """Returns errors in the unit of a value.

    They are converted as differences near this value: a difference of 0.1 eV is a longer or a shorter difference of
    wavelengths, depending on the energy.
    """
    if value.unit == errors.unit:
        return errors
    canonical = to_canonical(value, prop)
    value_in_old_unit = from_canonical(canonical, prop, errors.unit).value

    def converted(error: float) -> float:
        """Returns the size of an error, without its sign, in the unit of the value."""
        size = spread_in_canonical_unit(value_in_old_unit, abs(error), errors.unit, prop)
        return from_canonical(replace(canonical, uncertainty=size), prop, value.unit).uncertainty or 0.0

    mean_error = converted(errors.mean_error)
    turns_sign = _is_falling(prop, value.unit) != _is_falling(prop, errors.unit)
    is_negative = (errors.mean_error < 0) != turns_sign
    if is_negative:
        mean_error = -mean_error
    absolute = converted(errors.mean_absolute_error)
    return errors.model_copy(update={"mean_error": mean_error, "mean_absolute_error": absolute, "unit": value.unit})


def _is_falling(prop: Property, unit: str) -> bool:
    """Returns whether values in this unit fall as those in the canonical unit rise, as wavelengths of energies do."""
    conversion = prop.conversion(unit)
    return conversion is not None and conversion.is_falling


SIDE_WORDS = {Reason.BELOW_WINDOW: "below", Reason.ABOVE_WINDOW: "above"}


class Judged(Protocol):
    """A candidate with its verdict, as columns of the table campaign_candidate."""

    @property
    def position(self) -> int:
        """Position of the rung that gave the verdict."""

    @property
    def reason(self) -> str | None:
        """Reason of the verdict."""

    @property
    def detail(self) -> str | None:
        """The verdict in words, with the property and its value."""


def contradiction(row: CampaignRow, candidate: Judged, hit: bool, imported: Sequence[EvidenceAnswer]) -> str | None:
    """Returns a sentence on the imported values that contradict the verdict on a candidate; None if none does.

    hit: whether the candidate is a hit. imported: of this candidate. Replicates of one level are pooled first.

    A value contradicts a hit if it lies outside the limits of an objective by more than its standard uncertainty; an
    unknown uncertainty counts as 0. A value contradicts a miss if it lies inside the limits that the candidate missed.
    A computed value (its level has a basis or a geometry) of an energy whose scale depends on the method contradicts
    nothing.
    """
    limits = _limits(row) if hit else _missed_limits(row, candidate)
    where_it_lies = _outside if hit else _inside
    texts = []
    for measured in pooled_measured(answer.measured for answer in imported):
        if measured.property not in limits or _is_of_another_scale(measured):
            continue
        quantity = to_canonical(measured.quantity, properties()[measured.property])
        where = where_it_lies(quantity, limits[measured.property])
        if where is not None:
            files = [file_of(answer.source) for answer in imported if _holds(answer, measured)]
            each_file_once = ", ".join(dict.fromkeys(files))
            origin = f"{each_file_once}, {measured.level.label}"
            value = stated_value(measured)
            texts.append(f"{measured.property} = {value} ({origin}) lies {where}")
    return "; ".join(texts) or None


def _limits(row: CampaignRow) -> dict[str, Window]:
    """Returns the limits of the objectives, by property, in canonical units."""
    return {o["property"]: Window(*o["accept"]) for o in row.spec.get("objectives", ()) if o["accept"]}


def _missed_limits(row: CampaignRow, candidate: Judged) -> dict[str, Window]:
    """Returns {property: the limits that a candidate missed}, from the objective, or without one from the gate.

    Returns an empty mapping for a candidate that missed none.
    """
    missed = missed_property(candidate.reason, candidate.detail)
    if not missed:
        return {}
    limits = _limits(row)
    if missed in limits:
        return {missed: limits[missed]}
    gate = row.spec["ladder"][candidate.position]["gate"].get(missed)
    return {} if gate is None else {missed: Window(*gate)}


def _is_of_another_scale(measured: Measured) -> bool:
    """Returns whether a value is a computed energy whose zero and scale depend on the method."""
    return measured.property in PROPERTIES_ON_METHOD_SCALE and bool(measured.level.basis or measured.level.geometry)


def _outside(quantity: Quantity, window: Window) -> str | None:
    """Returns on which side the value lies outside the window by more than its uncertainty; None if it does not."""
    reason = window.misses(quantity)
    side = None if reason is None else SIDE_WORDS.get(reason)
    is_far = window.distance(quantity.value) > (quantity.uncertainty or 0.0)
    return f"{side} the limit of the objective" if side is not None and is_far else None


def _inside(quantity: Quantity, window: Window) -> str | None:
    """Returns words if the value lies inside the window; None if it lies outside, or if the value is only a bound and
    may lie on either side."""
    return "inside the limits that were missed" if window.misses(quantity) is None else None


def stated_value(measured: Measured) -> str:
    """Returns the value as it was typed, with its standard uncertainty if that is known."""
    quantity = measured.quantity
    if quantity.as_typed is None:
        return str(quantity)
    if quantity.uncertainty is None:
        return quantity.as_typed
    return f"{quantity.as_typed} ± {quantity.uncertainty:g}"


def _holds(answer: EvidenceAnswer, measured: Measured) -> bool:
    """Returns whether an answer has a value of the same property at the same level."""
    wanted = (measured.property, measured.level)
    return any((value.property, value.level) == wanted for value in answer.measured)
