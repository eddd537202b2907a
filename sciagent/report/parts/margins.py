"""Distances of the candidates' values from the limits of the objectives, with the error of the method.

The error of a rung's method comes from measured values that the campaign's candidates share with the rung, if there are
enough; otherwise from the benchmark that its verifier declares for this property and level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from sqlalchemy.engine import Connection

from sciagent.domain.answers.margins import MEASURED, LimitMargin, MethodFigures
from sciagent.domain.calibration import Fit, Fits
from sciagent.domain.chosen_units import unit_of
from sciagent.domain.evidence import Measured
from sciagent.domain.pooling import pooled
from sciagent.domain.properties import Property, properties
from sciagent.domain.quantities import Censoring, Quantity, convert, express, spread_in_canonical_unit
from sciagent.errors import UnknownNameError, UsageError
from sciagent.report.parts.agreement import FEWEST, SCALE_OF_ITS_METHOD
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import queries, report_pairs
from sciagent.store.views.candidates import EvidenceAnswer
from sciagent.verification.method_error import MethodError
from sciagent.verification.registry import verifier_class


@dataclass(frozen=True)
class MethodErrors:
    """The errors of a campaign's rungs against experiment."""

    measured: Mapping[tuple[str, str], MethodFigures]
    """{(rung, property): errors over shared molecules}, in the units of the campaign."""
    declared: Mapping[str, tuple[MethodError, ...]]
    """{rung: errors that its verifier declares}."""
    fits: Mapping[str, Fits] = field(default_factory=dict)
    """{rung: calibrations by property}; the error of a calibrated value is that of its fit."""

    def figures(self, rung: str, measured: Measured) -> MethodFigures | None:
        """Returns the errors that hold for a value of a rung, in the unit of the value; None if nothing is known."""
        prop = properties()[measured.property]
        if fit := self.fits.get(rung, {}).get(prop.name):
            figures: MethodFigures | None = _left_out(fit, prop)
        elif (figures := self.measured.get((rung, prop.name))) is None:
            declared = (e for e in self.declared.get(rung, ()) if e.holds_for(prop.name, measured.level))
            figures = next(map(_as_declared, declared), None)
        return figures and _in_unit(figures, prop, measured.quantity)


def method_errors(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> MethodErrors:
    """Returns the errors of the rungs for the properties of the objectives."""
    wanted = [objective["property"] for objective in row.spec.get("objectives", ())]
    imported = set(report_pairs.imported_properties(connection, row))
    shared: dict[tuple[str, str], MethodFigures] = {}
    for name in (name for name in wanted if name in imported and name not in SCALE_OF_ITS_METHOD):
        for rung in ladder:
            if queries.measures(connection, rung, name):
                figures = _from_measured(connection, row, rung, name)
                shared |= {(rung.name, name): figures} if figures else {}
    return MethodErrors(
        shared, {rung.name: _declared(rung.verifier) for rung in ladder}, {rung.name: rung.fits for rung in ladder}
    )


def margins(
    row: CampaignRow, highest: Mapping[str, tuple[EvidenceAnswer, Measured]], errors: MethodErrors
) -> tuple[LimitMargin, ...]:
    """Returns the distance of each objective's value from its limits, in the unit of the value.

    highest: values in the campaign's units, by property. An objective without limits and a value that is only a bound
    have no distance.
    """
    found = []
    for objective in row.spec.get("objectives", ()):
        limits = [edge for edge in objective.get("accept") or () if edge is not None]
        answer, measured = highest.get(objective["property"], (None, None))
        if not limits or answer is None or measured is None or measured.quantity.censoring is not Censoring.NONE:
            continue
        if measured.property not in properties():
            continue  # a function of a notebook defines it, and this process does not have that function
        quantity, prop = measured.quantity, properties()[objective["property"]]
        found.append(
            LimitMargin(
                property=prop.name,
                rung=answer.rung,
                margin=_margin(quantity, prop, objective["accept"]),
                unit=quantity.unit,
                repeatability=quantity.uncertainty,
                uncertainty_kind=quantity.uncertainty_kind if quantity.uncertainty else None,
                method=errors.figures(answer.rung, measured),
            )
        )
    return tuple(found)


def _margin(quantity: Quantity, prop: Property, accept: Sequence[float | None]) -> float:
    """Returns the distance from the nearest limit; negative outside. accept: (low, high) in the canonical unit."""
    edges = [None if edge is None else express(Quantity(edge, prop.unit), prop, quantity.unit).value for edge in accept]
    low, high = edges[::-1] if _is_falling(prop, quantity.unit) else edges
    inside = [quantity.value - low] if low is not None else []
    inside += [high - quantity.value] if high is not None else []
    return min(inside)


def _from_measured(connection: Connection, row: CampaignRow, rung: RungRow, name: str) -> MethodFigures | None:
    """Returns the errors over the candidates that have a measured value, replicates pooled; None for too few."""
    pairs = [
        (x.level_id, pooled(*zip(*x.values, strict=True))[0], pooled(*zip(*y.values, strict=True))[0])
        for x, y, _ in report_pairs.pairs(connection, row, None, rung, name)
        if not (x.is_censored or y.is_censored)
    ]
    experimental = report_pairs.experimental_levels(connection, sorted({level_id for level_id, *_ in pairs}))
    errors = [computed - measured for level_id, measured, computed in pairs if level_id in experimental]
    if len(errors) < FEWEST:
        return None
    return MethodFigures(
        n=len(errors),
        mean_error=fmean(errors),
        mean_absolute_error=fmean(abs(error) for error in errors),
        unit=unit_of(name, row.units),
        chemistry="candidates of this campaign",
        reference="experiment",
        source=MEASURED,
    )


def _left_out(fit: Fit, prop: Property) -> MethodFigures:
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
    try:
        return verifier_class(verifier).method_errors
    except (UnknownNameError, UsageError):  # the ledger may come from a machine with other verifiers
        return ()


def _as_declared(error: MethodError) -> MethodFigures:
    """Returns declared errors, in the unit of the declaration."""
    return MethodFigures(**{name: getattr(error, name) for name in MethodFigures.model_fields})


def _in_unit(figures: MethodFigures, prop: Property, at: Quantity) -> MethodFigures:
    """Returns errors in the unit of a value. They are differences near this value, which matters for wavelengths."""
    if at.unit == figures.unit:
        return figures
    near = convert(at, prop)
    stated = express(near, prop, figures.unit).value
    sizes = (
        spread_in_canonical_unit(stated, abs(size), figures.unit, prop)
        for size in (figures.mean_error, figures.mean_absolute_error)
    )
    mean, absolute = (express(replace(near, uncertainty=size), prop, at.unit).uncertainty or 0.0 for size in sizes)
    sign = -1 if (figures.mean_error < 0) != (_is_falling(prop, at.unit) != _is_falling(prop, figures.unit)) else 1
    return figures.model_copy(update={"mean_error": sign * mean, "mean_absolute_error": absolute, "unit": at.unit})


def _is_falling(prop: Property, unit: str) -> bool:
    """Returns whether values in this unit fall as those in the canonical unit rise, as wavelengths of energies do."""
    return (conversion := prop.conversion(unit)) is not None and conversion.is_falling
