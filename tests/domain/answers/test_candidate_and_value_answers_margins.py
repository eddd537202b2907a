"""How far a value lies from its limits, as text."""

from __future__ import annotations

import pytest

from sciagent.domain.answers.candidate_and_value_answers import EstimatedError, LimitMargin, MethodFigures

FIGURES = MethodFigures(
    n=30,
    mean_error=0.1,
    mean_absolute_error=0.3,
    unit="eV",
    chemistry="organics",
    reference="experiment",
    source="a",
    root_mean_square=None,
    low=None,
    high=None,
    charge="any",
)


OF_BENCHMARK = EstimatedError.of(None, FIGURES)


def margin(**changed: object) -> LimitMargin:
    fields = {"property": "adiabatic_ionization_energy", "rung": "xtb", "margin": 0.12, "unit": "eV"}
    fields |= {
        "repeatability": 0.03,
        "uncertainty_kind": "class",
        "isomer": None,
        "method": OF_BENCHMARK,
        "method_unknown": None,
        "p_inside": None,
    }
    return LimitMargin.model_validate(fields | changed)


def test_both_numbers_are_named() -> None:
    assert str(margin()) == "clear of the limits by 0.1 ± 0.3 eV (method), ± 0.03 eV (repeatability of its class)"
    assert str(margin(uncertainty_kind="molecule")).endswith("± 0.03 eV (repeatability)")
    assert str(margin(uncertainty_kind=None)).endswith("± 0.03 eV (standard uncertainty)")
    assert str(margin(uncertainty_kind="mean")).endswith("± 0.03 eV (standard error of the mean)")
    isomer = {"smiles": "C/C=C/C#N", "label": "E", "possible": 2, "different": 2, "is_upper_bound": False}
    assert str(margin(isomer=isomer)).endswith("± 0.03 eV (repeatability of its class of one isomer of 2)")
    assert str(margin(margin=-0.5)).startswith("outside the limits by 0.5 ± 0.3 eV (method)")


@pytest.mark.parametrize(
    ("distance", "cell", "text"),
    [
        (0.03, "0.03 ± 0.30 (method)", "clear of the limits by 0.03 ± 0.30 eV"),
        (-0.03, "-0.03 ± 0.30 (method)", "outside the limits by 0.03 ± 0.30 eV"),
        (-0.0004, "-0.0004 ± 0.3000 (method)", "outside the limits by 0.0004 ± 0.3000 eV"),
        (0.0, "0.0 ± 0.3 (method)", "clear of the limits by 0.0 ± 0.3 eV"),
    ],
)
def test_a_distance_has_the_digits_that_tell_it_from_0(distance: float, cell: str, text: str) -> None:
    shown = margin(margin=distance)
    assert shown.cell() == cell and str(shown).startswith(f"{text} (method)")
    repeated = margin(margin=distance, method=None, method_unknown="not known")
    assert float(repeated.cell()) == distance


def test_without_the_methods_error_the_text_says_so() -> None:
    text = str(margin(method=None, method_unknown="not known"))
    assert text == "clear of the limits by 0.12 ± 0.03 eV (repeatability of its class), the method's error is not known"
    assert margin(method=None, method_unknown="not known").cell() == "0.12"
    assert str(margin(method=None, method_unknown="not known for ions")).endswith("is not known for ions")


def test_a_measured_value_has_no_method() -> None:
    assert str(margin(rung="measured", method=None)) == "clear of the limits by 0.12 ± 0.03 eV"


def test_own_values_and_a_large_benchmark_are_both_told() -> None:
    benchmark = FIGURES.model_copy(update={"n": 516, "mean_absolute_error": 1.1, "root_mean_square": 1.6})
    own = {"n": 12, "mean_absolute_error": 0.46, "root_mean_square": 0.5, "low": 0.33, "high": 0.8}
    both = EstimatedError.of(FIGURES.model_copy(update=own), benchmark)
    assert str(both) == (
        "mean absolute error 0.46 eV (0.33 to 0.8, 12 of yours), mean error +0.1 eV against experiment; "
        "benchmark 1.1 eV (n = 516, organics)"
    )
    assert both is not None and both.spread == pytest.approx(((10 * 2.55 + 12 * 0.24) / 22) ** 0.5)
    assert both.mean_error == 0.1 and both.n == 12 and 0.46 < both.mean_absolute_error < 1.1


def test_an_error_that_begins_with_one_keeps_two_digits() -> None:
    figures = FIGURES.model_copy(update={"mean_absolute_error": 1.146, "unit": "kcal/mol"})
    method = EstimatedError.of(None, figures)
    text = str(margin(margin=0.38, unit="kcal/mol", method=method))
    assert text.startswith("clear of the limits by 0.4 ± 1.1 kcal/mol (method)")
    assert margin(margin=0.38, unit="kcal/mol", method=method).cell() == "0.4 ± 1.1 (method)"


def test_of_an_exact_value_nothing_is_uncertain() -> None:
    assert str(margin(repeatability=0.0, method=None)) == "clear of the limits by 0.12 eV"
