"""How certain values are: their distances from the limits of the objectives (`certainty`), with the error of the method
(`method_errors`).

The error of a rung's method comes from imported measurements of candidates that the rung has answered, if there are
enough, and from the benchmark that the rung's verifier declares for this property and level. Neutral molecules and ions
are kept apart. A derived value has the errors of its parts, by the slopes of its formula.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.domain.answers.candidate_and_value_answers import (
    MEASURED,
    NOT_KNOWN,
    PROPAGATED,
    EstimatedError,
    IsomerAnswer,
    LimitMargin,
    MethodFigures,
    limits_chance_words,
)
from sciagent.domain.derived_properties import evaluated_in_unit, propagated_error, read_formula
from sciagent.domain.display_units import chosen_unit_of
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured, at_highest_rung, pooled
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import Property, comparable_phase, phase_named, properties
from sciagent.domain.quantities import Censoring, Quantity, from_canonical, spread_in_canonical_unit, to_canonical
from sciagent.domain.rung_calibration_on_measurements import Fit, Fits
from sciagent.domain.worth import EXACT, KnownError, LimitedValue, p_limits
from sciagent.errors import UnknownNameError, UsageError
from sciagent.report.parts.rung_and_judge_agreement import MIN_PAIRS, PROPERTIES_ON_METHOD_SCALE
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.results.evidence import levels_of
from sciagent.store.views import progress_and_comparisons
from sciagent.store.views.report_candidates import (
    MEASURED_LABEL,
    EvidenceAnswer,
    MeasuredAt,
    deciding_measurements,
    experimental_values,
)
from sciagent.store.views.report_queries import has_measured
from sciagent.verification.verifier_contract import ChargeClass, MethodError
from sciagent.verification.verifier_registry import verifier_class

INTERVAL = 0.95  # probability of the interval of a mean absolute error
RungProperty = tuple[str, str]
"""Label of a rung, and a property that it measured."""


class ErrorOrReason(NamedTuple):
    """The method's error of a value, or why it is not known."""

    error: EstimatedError | None
    reason: str
    """Words such as `not known for ions`; empty for a known error."""


OF_A_MEASUREMENT = ErrorOrReason(None, "")
"""A measured value has no method's error: its own uncertainty is that against the truth."""


@dataclass(frozen=True)
class MethodErrors:
    """The errors of a campaign's rungs against experiment."""

    measured: Mapping[tuple[str, str, ChargeClass], MethodFigures]
    """{(rung, property, class of charge): errors over shared molecules}, in the units of the campaign."""
    declared: Mapping[str, tuple[MethodError, ...]]
    """{rung: errors that its verifier declares}."""
    fits: Mapping[str, Fits] = field(default_factory=dict)
    """{rung: calibrations by property}; a calibrated value has the error of its fit."""
    derived: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{derived property: its entry in the spec}."""

    def of_value(
        self, rung: str, measured: Measured, charge: ChargeClass, values: Mapping[RungProperty, Measured]
    ) -> ErrorOrReason:
        """Returns the error that a value of a rung has, in the unit of the value, or why it is not known.

        charge: of the candidate. values: all values of the candidate from rungs, for the parts of a derived value.
        """
        prop = properties()[measured.property]
        fit = self.fits.get(rung, {}).get(prop.name)
        own = self.measured.get((rung, prop.name, charge))
        benchmark = None
        reason = ""
        if fit and fit.charges not in (ChargeClass.ANY, charge):
            return ErrorOrReason(None, f"{NOT_KNOWN} for {charge.many}")
        if fit:
            own = _leave_one_out_error(fit, prop, measured)
        elif prop.name in self.derived:
            benchmark, reason = self._of_parts(measured, charge, values)
        else:
            benchmark, reason = self._declared(rung, measured, charge)
        figures = [None if each is None else _in_unit(each, prop, measured.quantity) for each in (own, benchmark)]
        error = EstimatedError.of(*figures)
        return ErrorOrReason(error, "" if error else reason)

    def _declared(self, rung: str, measured: Measured, charge: ChargeClass) -> tuple[MethodFigures | None, str]:
        """Returns the errors that the rung's verifier declares for such values, or why there are none."""
        name = measured.property
        declared = [error for error in self.declared.get(rung, ()) if error.holds_for(name, measured.level)]
        for error in declared:
            if error.holds_for_charge(charge):
                return _as_declared(error), ""
        other = ChargeClass.ION if charge is ChargeClass.NEUTRAL else ChargeClass.NEUTRAL
        is_known_for_others = bool(declared) or (rung, name, other) in self.measured
        return None, f"{NOT_KNOWN} for {charge.many}" if is_known_for_others else NOT_KNOWN

    def _of_parts(
        self, measured: Measured, charge: ChargeClass, values: Mapping[RungProperty, Measured]
    ) -> tuple[MethodFigures | None, str]:
        """Returns the error of a derived value by the errors of its parts, or why it is not known. It is in the
        canonical unit."""
        stated = self.derived[measured.property]
        formula = read_formula(stated["formula"])
        parts: dict[str, Quantity] = {}
        rungs: dict[str, str] = {}
        errors: dict[str, EstimatedError] = {}
        for name, (rung, part_property) in stated["parts"].items():
            if (rung, part_property) not in values:
                return None, f"{NOT_KNOWN} for {part_property}"
            part = values[rung, part_property]
            quantity = to_canonical(part.quantity, properties()[part_property])
            rungs[name] = rung
            parts[name] = quantity
            found = self.of_value(rung, replace(part, quantity=quantity), charge, values)
            if found.error is not None:
                errors[name] = found.error
            elif quantity.uncertainty != 0:  # 0: an exact descriptor of the structure, without an error
                return None, f"{NOT_KNOWN} for {part_property}" if found.reason == NOT_KNOWN else found.reason
        result = evaluated_in_unit(formula, parts, stated["unit"])
        if result is None:
            return None, NOT_KNOWN
        slopes: dict[RungProperty, float] = {}  # two names may stand for one part
        known: dict[RungProperty, KnownError] = {}
        absolute_errors: dict[RungProperty, float] = {}
        for name, error in errors.items():
            part_property = stated["parts"][name][1]
            slopes[rungs[name], part_property] = slopes.get((rungs[name], part_property), 0.0) + result.slopes[name]
            known[rungs[name], part_property] = error.known
            absolute_errors[rungs[name], part_property] = error.mean_absolute_error
        propagated = propagated_error([(part[0], slope, known[part]) for part, slope in slopes.items()])
        if propagated is None:
            return None, NOT_KNOWN
        absolute = propagated.mean_absolute
        if len(slopes) == 1:  # the error of the only part, stretched by the formula
            [(only_part, slope)] = slopes.items()
            absolute = abs(slope) * absolute_errors[only_part]
        names = [part_property for _, part_property in known]
        return _as_propagated(propagated, absolute, stated["unit"], names, list(errors.values()), charge), ""


def method_errors(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> MethodErrors:
    """Returns the errors of the rungs for the properties of the objectives, and for the parts of derived ones."""
    derived = {stated["property"]: stated for stated in row.spec.get("derived", ())}
    wanted = [objective["property"] for objective in row.spec.get("objectives", ())]
    for name in list(wanted):
        if name in derived:
            wanted += [part_property for _, part_property in derived[name]["parts"].values()]
    imported = set(progress_and_comparisons.imported_properties(connection, row))
    # an energy on the scale of a method has no common zero with experiment
    comparable = [name for name in wanted if name in imported and name not in PROPERTIES_ON_METHOD_SCALE]
    from_measured: dict[tuple[str, str, ChargeClass], MethodFigures] = {}
    for name in dict.fromkeys(comparable):
        for rung in ladder:
            if has_measured(connection, rung, name):
                for charge, figures in _from_measured(connection, row, rung, name).items():
                    from_measured[rung.name, name, charge] = figures
    declared = {rung.name: _declared(rung.verifier) for rung in ladder}
    fits = {rung.name: rung.fits for rung in ladder}
    return MethodErrors(from_measured, declared, fits, derived)


@dataclass(frozen=True)
class Certainty:
    """How certain it is that a candidate meets the limits of the objectives."""

    margins: tuple[LimitMargin, ...]
    """Distance of each objective's value from its limits."""
    p_limits: float | None
    """Probability that the true values lie within all limits; see `sciagent.domain.worth.p_limits`."""
    unknown: tuple[str, ...]
    """The objectives that leave it unknown although the rung that decides has answered."""
    measured: tuple[str, ...] = ()
    """The objectives for which an experimental value of the candidate itself says where the true value lies."""

    @property
    def words(self) -> str:
        """The probability in words; empty before the rungs that decide have answered."""
        return limits_chance_words(self.p_limits, self.unknown, self.measured)


def certainty(
    row: CampaignRow,
    ladder: Sequence[RungRow],
    answers: Sequence[EvidenceAnswer],
    errors: MethodErrors,
    charge: int,
    imported: Sequence[EvidenceAnswer] = (),
) -> Certainty:
    """Returns the distances of a candidate's values from the limits, each in the unit of the value, and the probability
    that the true values lie within all of them.

    answers: of the rungs, in ladder order, replicates pooled, calibrated, in the units of the campaign. charge: total
    charge of the candidate. An objective without limits, a value that is only a bound, and a value of a lower rung than
    the one that decides have no distance: the limits are not on that rung's scale. imported: the candidate's imported
    values, in any unit; under `measured: decide` those of experiment stand in place of computed ones.

    An experimental value of the candidate is the best knowledge of the true one, whether it decides or not: the
    probability comes from it and its uncertainty, and not from the error of a method.
    """
    accept = _limits_by_objective(row)
    by_measurement = deciding_measurements(row, ladder, imported)
    answered = _decided(ladder, answers, list(accept), by_measurement)
    values = {(answer.rung, measured.property): measured for answer in answers for measured in answer.measured}
    limit_margins = []
    p_inside = _p_inside_by_measurement(row, ladder, imported, accept)
    from_measurement = tuple(p_inside)
    for name, (answer, measured) in answered.items():
        if name not in properties():  # a function of a notebook defines it, and this process may not have it
            continue
        found = OF_A_MEASUREMENT
        if name not in by_measurement:
            found = errors.of_value(answer.rung, measured, ChargeClass.of(charge), values)
        isomer = measured.quantity.isomer
        if isomer is not None and isomer.decides_value:
            p_inside.setdefault(name, None)  # the substance may be another isomer, with another value
        elif name not in p_inside:
            p_inside[name] = _p_inside(measured.quantity, properties()[name], accept[name], found)
        if measured.quantity.censoring is Censoring.NONE:
            limit_margins.append(_limit_margin(answer.rung, measured, accept[name], found, p_inside[name]))
    chance = p_limits([p_inside.get(name) for name in accept])
    unknown = []
    if accept.keys() <= answered.keys() | p_inside.keys():  # all rungs that decide have answered
        unknown = [name for name in accept if p_inside.get(name) is None]
    return Certainty(tuple(limit_margins), chance, tuple(unknown), from_measurement)


def _limits_by_objective(row: CampaignRow) -> dict[str, Sequence[float | None]]:
    """Returns {property: (low, high) in its canonical unit} of the objectives with limits."""
    accept = {}
    for objective in row.spec.get("objectives", ()):
        if objective.get("accept") not in (None, [None, None]):
            accept[objective["property"]] = objective["accept"]
    return accept


def _p_inside_by_measurement(
    row: CampaignRow,
    ladder: Sequence[RungRow],
    imported: Sequence[EvidenceAnswer],
    accept: Mapping[str, Sequence[float | None]],
) -> dict[str, float | None]:
    """Returns {property: probability that the true value lies within the limits} of the objectives for which the
    candidate has an experimental value; None for a value without an uncertainty. accept: limits by property."""
    p_inside = {}
    for name, (_, measured) in experimental_values(row, ladder, imported).items():
        if name in accept:
            p_inside[name] = _p_inside(measured.quantity, properties()[name], accept[name], OF_A_MEASUREMENT)
    return p_inside


def _decided(
    ladder: Sequence[RungRow],
    answers: Sequence[EvidenceAnswer],
    names: Sequence[str],
    by_measurement: Mapping[str, MeasuredAt],
) -> dict[str, MeasuredAt]:
    """Returns {property: (answer, value)} of those of the properties that a measurement decides, or that the rung which
    decides has answered."""
    deciding = {name: rung.name for rung in ladder for name in rung.decides}
    highest = at_highest_rung(answers)
    decided = {}
    for name in names:
        if name in by_measurement:
            answer, measured = by_measurement[name]
            decided[name] = (answer._replace(rung=MEASURED_LABEL), measured)
        elif name in highest:
            answer, measured = highest[name]
            if deciding.get(name, answer.rung) == answer.rung:
                decided[name] = (answer, measured)
    return decided


def _limit_margin(
    rung: str, measured: Measured, accept: Sequence[float | None], found: ErrorOrReason, p_inside: float | None
) -> LimitMargin:
    """Returns the distance of a value from the limits. accept: (low, high) in the canonical unit. p_inside: of the true
    value."""
    quantity = measured.quantity
    prop = properties()[measured.property]
    low, high = _limits_in_unit(quantity, prop, accept)
    distances = []
    if low is not None:
        distances.append(quantity.value - low)
    if high is not None:
        distances.append(high - quantity.value)
    is_exact = quantity.uncertainty == 0 and found.error is None
    return LimitMargin(
        property=prop.name,
        rung=rung,
        margin=min(distances),
        unit=quantity.unit,
        repeatability=quantity.uncertainty,
        uncertainty_kind=quantity.uncertainty_kind if quantity.uncertainty else None,
        isomer=IsomerAnswer.of(quantity.isomer),
        method=found.error,
        method_unknown=None if found.error or is_exact else found.reason or None,
        p_inside=p_inside,
    )


def _p_inside(quantity: Quantity, prop: Property, accept: Sequence[float | None], found: ErrorOrReason) -> float | None:
    """Returns the probability that the true value lies within the limits; None if it is unknown.

    accept: (low, high) in the canonical unit. found: the error of the method. A bound that lies wholly inside or
    outside counts like a value at the bound, from which the true value lies still further inside or outside; one that
    could lie on either side leaves the probability unknown.
    """
    low, high = _limits_in_unit(quantity, prop, accept)
    is_bound = quantity.censoring is not Censoring.NONE
    if is_bound and Window(low, high).misses(quantity) is Reason.NOT_MEASURED:
        return None
    known = found.error.known if found.error else None
    # the bound of a measurement is what was found, also without an uncertainty
    if found is OF_A_MEASUREMENT and (is_bound or quantity.uncertainty is not None):
        known = EXACT
    uncertainty = quantity.uncertainty
    if uncertainty is not None and known is not None and quantity.uncertainty_kind == "fit":
        # the uncertainty of a calibrated value includes the error of the fit, which would count twice
        uncertainty = math.sqrt(max(uncertainty**2 - known.spread**2, 0.0))
    return LimitedValue(quantity.value, uncertainty, known, low, high).p_inside


def _limits_in_unit(
    quantity: Quantity, prop: Property, accept: Sequence[float | None]
) -> tuple[float | None, float | None]:
    """Returns (low, high) in the unit of a quantity. accept: (low, high) in the canonical unit."""
    edges: list[float | None] = []
    for edge in accept:
        in_unit = None if edge is None else from_canonical(Quantity(edge, prop.unit), prop, quantity.unit).value
        edges.append(in_unit)
    if _is_falling(prop, quantity.unit):
        edges.reverse()  # the lower limit of the energy is the upper limit of the wavelength
    low, high = edges
    return low, high


def _mean(replicates: progress_and_comparisons.Replicates) -> float:
    """Returns the pooled value of replicates."""
    values = [value for value, _ in replicates.values]
    uncertainties = [uncertainty for _, uncertainty in replicates.values]
    mean, _ = pooled(values, uncertainties)
    return mean


def _from_measured(
    connection: Connection, row: CampaignRow, rung: RungRow, name: str
) -> dict[ChargeClass, MethodFigures]:
    """Returns the errors over the neutral candidates and over the ions that have a measured value, replicates pooled; a
    class with too few is left out.

    A candidate that was measured by several methods counts once, with the mean of its errors. A value in another phase
    than the rung's says nothing of its error.
    """
    pairs: list[tuple[progress_and_comparisons.Replicates, progress_and_comparisons.Replicates]] = []
    # lower=None: the rung's values are compared with imported values
    candidate_pairs = progress_and_comparisons.replicate_pairs(
        connection, row, lower=None, upper=rung, property_name=name
    )
    for imported, of_rung, _ in candidate_pairs:
        if not imported.is_censored and not of_rung.is_censored:
            pairs.append((imported, of_rung))
    level_ids = {replicates.level_id for pair in pairs for replicates in pair}
    levels = levels_of(connection, level_ids)
    errors: dict[tuple[int, str], dict[str, list[float]]] = {}  # by candidate and computed phase, then by phase
    for imported, of_rung in pairs:
        level = levels[imported.level_id]
        if level.is_experiment:
            by_phase = errors.setdefault((imported.candidate_id, levels[of_rung.level_id].phase), {})
            by_phase.setdefault(phase_named(level.phase), []).append(_mean(of_rung) - _mean(imported))
    errors_by_candidate: dict[int, list[float]] = {}
    for (id_, computed_phase), by_phase in errors.items():
        phase = comparable_phase(by_phase, computed_phase)
        if phase is not None:
            errors_by_candidate.setdefault(id_, []).extend(by_phase[phase])
    charges = progress_and_comparisons.charges(connection, list(errors_by_candidate))
    errors_by_class: dict[ChargeClass, list[float]] = {}
    for id_, of_candidate in errors_by_candidate.items():
        errors_by_class.setdefault(ChargeClass.of(charges[id_]), []).append(fmean(of_candidate))
    unit = chosen_unit_of(name, row.units)
    return {
        charge: _own_figures(of_class, unit, charge)
        for charge, of_class in errors_by_class.items()
        if len(of_class) >= MIN_PAIRS
    }


def _own_figures(errors: Sequence[float], unit: str, charge: ChargeClass) -> MethodFigures:
    """Returns the figures over the campaign's own candidates. errors: one for each candidate, in `unit`."""
    absolute = fmean(abs(error) for error in errors)
    low, high = interval_of_mean_absolute_error(absolute, len(errors))
    return MethodFigures(
        n=len(errors),
        mean_error=fmean(errors),
        mean_absolute_error=absolute,
        unit=unit,
        chemistry="candidates of this campaign",
        reference="experiment",
        source=MEASURED,
        root_mean_square=math.sqrt(fmean(error**2 for error in errors)),
        low=low,
        high=high,
        charge=charge,
    )


def interval_of_mean_absolute_error(absolute: float, n: int) -> tuple[float, float]:
    """Returns the 95 % interval of a mean absolute error over n molecules.

    It is the chi-squared interval of a standard deviation with n / (pi - 2) degrees of freedom: for normal errors
    around 0 the relative variance of the mean absolute value is (pi / 2 - 1) / n, and that of a root mean square with
    that many degrees of freedom is the same.
    """
    from scipy.special import gammaincinv  # slow to import

    freedom = n / (math.pi - 2)
    tail = (1 - INTERVAL) / 2
    largest, smallest = (2 * float(gammaincinv(freedom / 2, p)) for p in (1 - tail, tail))  # quantiles of chi squared
    return absolute * math.sqrt(freedom / largest), absolute * math.sqrt(freedom / smallest)


def _leave_one_out_error(fit: Fit, prop: Property, measured: Measured) -> MethodFigures:
    """Returns the leave-one-out error of a calibration, widened for a value far from the fitted ones, in the canonical
    unit. measured: the calibrated value."""
    computed = (to_canonical(measured.quantity, prop).value - fit.intercept) / fit.slope
    widening = fit.widening(computed)
    absolute = widening * fit.mean_absolute_error
    low, high = interval_of_mean_absolute_error(absolute, fit.n)
    return MethodFigures(
        n=fit.n,
        mean_error=0.0,
        mean_absolute_error=absolute,
        unit=prop.unit,
        chemistry="the candidates of the fit, each left out in turn",
        reference=fit.measured_level,
        source=MEASURED,
        root_mean_square=widening * fit.root_mean_square_error,
        low=low,
        high=high,
        charge=fit.charges,
    )


def _as_propagated(
    error: KnownError,
    absolute: float,
    unit: str,
    names: Sequence[str],
    parts: Sequence[EstimatedError],
    charge: ChargeClass,
) -> MethodFigures:
    """Returns the error of a derived value as figures. absolute: its mean absolute error. unit: of both. names:
    properties of the parts. parts: their errors."""
    figures = [of_source for part in parts for of_source in (part.own, part.benchmark) if of_source is not None]
    references = dict.fromkeys(of_source.reference for of_source in figures)
    return MethodFigures(
        n=error.n,
        mean_error=error.bias,
        mean_absolute_error=absolute,
        unit=unit,
        chemistry=f"by its formula from {' and '.join(names)}",
        reference=" and ".join(references),
        source=PROPAGATED,
        root_mean_square=math.hypot(error.bias, error.spread),
        low=None,
        high=None,
        charge=charge,
    )


def _declared(verifier: str) -> tuple[MethodError, ...]:
    """Returns the errors that a verifier declares; none for a verifier that this machine does not have."""
    try:
        return verifier_class(verifier).method_errors
    except (UnknownNameError, UsageError):  # the ledger may come from a machine with other verifiers
        return ()


def _as_declared(error: MethodError) -> MethodFigures:
    """Returns declared errors, in the unit of the declaration."""
    stated = {name: getattr(error, name) for name in MethodFigures.model_fields if name not in ("low", "high")}
    return MethodFigures(**stated, low=None, high=None)


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

    in_unit: dict[str, Any] = {"unit": value.unit}
    for name in ("mean_error", "mean_absolute_error", "root_mean_square", "low", "high"):
        error = getattr(errors, name)
        in_unit[name] = None if error is None else converted(error)
    turns_sign = _is_falling(prop, value.unit) != _is_falling(prop, errors.unit)
    if (errors.mean_error < 0) != turns_sign:
        in_unit["mean_error"] = -in_unit["mean_error"]
    return errors.model_copy(update=in_unit)


def _is_falling(prop: Property, unit: str) -> bool:
    """Returns whether values in this unit fall as those in the canonical unit rise, as wavelengths of energies do."""
    conversion = prop.conversion(unit)
    return conversion is not None and conversion.is_falling
