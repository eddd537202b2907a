"""Fits of computed to measured values, against numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level, properties
from sciagent.domain.quantities import Censoring, Quantity, to_canonical
from sciagent.domain.rung_calibration_on_measurements import CalibratedLevel, Fit, FitKind, calibrated, fitted

NAME = "solvation_free_energy"
LEVEL = Level("GFN2-xTB", phase="water", geometry="GFN2-xTB//ETKDGv3x10")


def data(n: int = 20) -> tuple[list[float], list[float]]:
    random = np.random.default_rng(3)
    computed = random.uniform(-0.5, 0.1, n)
    return computed.tolist(), (1.2 * computed - 0.03 + random.normal(0, 0.02, n)).tolist()


def left_out(kind: FitKind, computed: list[float], measured: list[float]) -> list[float]:
    """The error of each value, predicted by numpy from a fit to the others."""
    errors = []
    for i in range(len(computed)):
        x, y = np.delete(computed, i), np.delete(measured, i)
        line = np.polyfit(x, y, 1) if kind is FitKind.LINEAR else np.array([1.0, np.mean(y - x)])
        errors.append(measured[i] - np.polyval(line, computed[i]))
    return errors


@pytest.mark.parametrize("kind", list(FitKind))
def test_the_fit_and_its_leave_one_out_error_equal_those_of_numpy(kind: FitKind) -> None:
    computed, measured = data()
    fit = fitted(NAME, kind, "experiment", computed, measured)
    slope, intercept = (
        np.polyfit(computed, measured, 1) if kind is FitKind.LINEAR else (1.0, np.mean(np.subtract(measured, computed)))
    )
    assert (fit.slope, fit.intercept) == pytest.approx((slope, intercept), rel=1e-10)
    errors = left_out(kind, computed, measured)
    assert fit.error_without == pytest.approx(np.mean(np.abs(np.subtract(measured, computed))), rel=1e-12)
    assert fit.mean_absolute_error == pytest.approx(np.mean(np.abs(errors)), rel=1e-9)
    assert fit.root_mean_square_error == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-9)


def test_a_fit_needs_eight_molecules_with_spread_and_a_rising_line() -> None:
    computed, measured = data(8)
    assert fitted(NAME, FitKind.LINEAR, "experiment", computed, measured).n == 8
    with pytest.raises(ValueError, match="7 molecules; a fit needs 8"):
        fitted(NAME, FitKind.LINEAR, "experiment", computed[1:], measured[1:])
    with pytest.raises(ValueError, match="all alike"):
        fitted(NAME, FitKind.LINEAR, "experiment", [0.3] * 8, measured)
    with pytest.raises(ValueError, match="fall as the computed ones rise"):
        fitted(NAME, FitKind.LINEAR, "experiment", computed, [-m for m in measured])
    with pytest.raises(ValueError, match="single molecule decides"):
        fitted(NAME, FitKind.LINEAR, "experiment", [0.0] * 7 + [1.0], [0.0] * 7 + [1.0])


FIT = Fit(NAME, FitKind.LINEAR, "experiment", 2.0, -0.1, 19, 0.03, 0.04, 0.05)


def test_a_calibrated_value_has_its_level_and_both_uncertainties() -> None:
    other = Measured("dipole", LEVEL, Quantity(1.0, "D"))
    [value, same] = calibrated([Measured(NAME, LEVEL, Quantity(-0.2, "eV", 0.015)), other], {NAME: FIT})
    assert (value.quantity.value, value.quantity.uncertainty) == pytest.approx((-0.5, 0.05))  # 0.03**2 + 0.04**2
    assert value.level.label == "GFN2-xTB(water)//GFN2-xTB//ETKDGv3x10 + linear fit, n = 19" and same is other
    assert isinstance(value.level, CalibratedLevel)


def test_a_value_in_another_unit_and_a_bound_are_calibrated_alike() -> None:
    prop = properties()[NAME]
    below = FIT.calibrated_quantity(Quantity(-4.6, "kcal/mol", censoring=Censoring.BELOW))
    canonical = to_canonical(below, prop)
    assert below.unit == "kcal/mol" and below.censoring is Censoring.BELOW
    assert canonical.value == pytest.approx(2 * to_canonical(Quantity(-4.6, "kcal/mol"), prop).value - 0.1)


def test_the_sentence_has_line_and_error_in_the_unit_of_the_campaign() -> None:
    assert FIT.sentence("alpb") == (
        "solvation_free_energy of alpb is calibrated on experiment: 2 × alpb - 0.1 eV, linear fit, n = 19, "
        "leave-one-out mean absolute error 0.03 eV, without the fit 0.05 eV"
    )
    assert "2 × alpb - 2.31 kcal/mol" in FIT.sentence("alpb", "kcal/mol")


def test_a_fit_is_used_only_if_it_gains_more_than_chance() -> None:
    """The computed values differ from the measured ones by noise; a tenth of the noise, plus a bias, is worth a fit."""
    random = np.random.default_rng(5)
    measured = random.uniform(-0.5, 0.1, 20)
    noise = random.normal(0, 0.02, 20)
    noise -= noise.mean()
    for computed, is_used in ((measured + noise, False), (measured + noise / 10 + 0.05, True)):
        fit = fitted(NAME, FitKind.LINEAR, "experiment", computed.tolist(), measured.tolist())
        errors = left_out(FitKind.LINEAR, computed.tolist(), measured.tolist())
        gains = np.abs(measured - computed) - np.abs(errors)
        assert fit.is_used == is_used == bool(gains.mean() > 2 * gains.std(ddof=1) / np.sqrt(20))


def test_the_sentence_on_a_fit_without_use_names_both_errors() -> None:
    unused = replace(FIT, mean_absolute_error=0.06, is_used=False)
    assert unused.sentence("alpb") == (
        "solvation_free_energy of alpb stays as computed, since the linear fit to experiment would not help: "
        "leave-one-out mean absolute error 0.06 eV against 0.05 eV without it, n = 19 (calibrate with force: true uses "
        "it all the same)"
    )
    assert "would gain no more than chance" in replace(FIT, is_used=False).sentence("alpb")


def test_the_error_of_a_fit_grows_with_the_distance_from_its_molecules() -> None:
    """The expected numbers are standard errors of predictions by least squares, from numpy."""
    rng = np.random.default_rng(2)
    computed = rng.uniform(-0.6, -0.2, 12)
    measured = 1.3 * computed + 0.1 + rng.normal(0, 0.02, 12)
    fit = fitted(NAME, FitKind.LINEAR, "experiment", computed.tolist(), measured.tolist())
    design = np.column_stack([computed, np.ones(12)])
    inverse = np.linalg.inv(design.T @ design)
    for value in (-0.4, -0.2, -6.0):
        row = np.array([value, 1.0])
        wanted = max(1.0, np.sqrt((1 + row @ inverse @ row) / (1 + 2 / 12)))
        assert fit.widening(value) == pytest.approx(wanted)
        assert fit.uncertainty(value, None) == pytest.approx(wanted * fit.root_mean_square_error)
    assert fit.widening(-6.0) > 10
    assert replace(fit, kind=FitKind.OFFSET).widening(-6.0) == 1.0


def test_a_fit_of_neutral_molecules_has_no_error_for_an_ion() -> None:
    fit = replace(FIT, charges="neutral")
    computed = Quantity(-0.4, "eV", 0.01, uncertainty_kind="class")
    neutral = fit.calibrated_quantity(computed, charge=0)
    ion = fit.calibrated_quantity(computed, charge=2)
    assert ion.value == neutral.value == pytest.approx(2.0 * -0.4 - 0.1)
    assert (neutral.uncertainty, neutral.uncertainty_kind) == (pytest.approx(np.hypot(0.02, 0.04)), "fit")
    assert (ion.uncertainty, ion.uncertainty_kind) == (pytest.approx(0.02), "class")
    assert [replace(FIT, charges=charges).holds_for(-1) for charges in ("neutral", "ion", "any")] == [False, True, True]
