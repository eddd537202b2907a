"""Several measurements as one value, with what is known of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sciagent.domain.evidence_keys_and_pooled_replicates import pooled, pooled_quantity
from sciagent.domain.quantities import Censoring, Quantity


def test_one_is_taken_as_it_is() -> None:
    assert pooled([4.2], [0.1]) == (4.2, 0.1)
    assert pooled([4.2], [None]) == (4.2, None)


def test_with_their_uncertainties_the_better_known_counts_more() -> None:
    mean, error = pooled([1.0, 2.0], [0.1, 1.0])
    assert mean == pytest.approx(1.0 + 1 / 101)
    assert error == pytest.approx(1 / np.sqrt(101), rel=1e-2)  # they agree: what they foretell


def test_where_they_disagree_the_scatter_decides() -> None:
    mean, error = pooled([1.0, 3.0], [0.1, 0.1])
    assert (mean, error) == pytest.approx((2.0, 1.0))  # half the distance, not 0.07


def test_without_them_it_is_the_standard_error_of_the_mean() -> None:
    values = [1.0, 2.0, 4.0, 5.0]
    assert pooled(values, [0.1, None, 0.1, 0.1]) == pytest.approx((3.0, np.std(values, ddof=1) / 2))


def test_nothing_has_no_mean() -> None:
    with pytest.raises(ValueError, match="nothing"):
        pooled([], [])


def quantity(value: float, sign: str = "", error: float | None = None) -> Quantity:
    return Quantity(value, "%", error, {"": Censoring.NONE, "<": Censoring.BELOW, ">": Censoring.ABOVE}[sign])


@pytest.mark.parametrize(
    ("replicates", "expected"),
    [
        ([quantity(2.0, "<")], quantity(2.0, "<")),
        ([quantity(2.0, "<"), quantity(1.0, "<")], replace(quantity(1.0, "<"), n=2)),
        ([quantity(2.0, ">"), quantity(5.0, ">")], replace(quantity(5.0, ">"), n=2)),
        ([quantity(0.4), quantity(1.0, "<")], quantity(0.4)),
        (
            [quantity(1.0, ">"), quantity(3.0, "<")],
            Quantity(2.0, "%", 2 / math.sqrt(12), n=2, uncertainty_kind="between_limits"),
        ),
        ([quantity(3.0), quantity(1.0, "<")], replace(quantity(2.0, "<"), n=2)),
        ([quantity(116.0), quantity(116.4), quantity(200.0, ">")], replace(quantity(432.4 / 3, ">"), n=3)),
        ([quantity(80.0, "<"), quantity(130.0, ">"), quantity(131.0, ">")], None),
        ([quantity(100.0), quantity(80.0, "<"), quantity(130.0, ">")], None),
    ],
    ids=[
        "one bound",
        "the tighter",
        "the tighter above",
        "a bound that agrees is left out",
        "bounds from both sides",
        "a bound that contradicts makes the mean a bound",
        "a bound above that contradicts",
        "nothing lies between the bounds",
        "bounds contradict on both sides",
    ],
)
def test_bounds_are_pooled(replicates: list[Quantity], expected: Quantity | None) -> None:
    """A limit never becomes a value that nobody has measured."""
    found = pooled_quantity(replicates)
    if expected is None or found is None:
        assert found is expected
    else:
        assert found.value == pytest.approx(expected.value) and replace(found, value=expected.value) == expected


def test_replicates_that_scatter_more_than_their_class_make_the_uncertainty_their_own() -> None:
    near, far = ([Quantity(v, "eV", 0.1, uncertainty_kind="class") for v in (1.0, x)] for x in (1.05, 3.0))
    assert pooled_quantity(near).uncertainty_kind == "class"
    assert pooled_quantity(far).uncertainty_kind == "molecule"
    one_states_a_kind = [Quantity(1.0, "eV"), Quantity(2.0, "eV", 0.1, uncertainty_kind="molecule")]
    assert pooled_quantity(one_states_a_kind).uncertainty_kind == "molecule"


@pytest.mark.parametrize(
    ("errors", "mean", "error", "kind"),
    [
        ((None, None), 1.5, 0.5, "mean"),
        ((0.1, None), 1.5, 0.5, "mean"),
        ((0.1, 0.2), 1.2, 0.4, "weighted_mean"),  # by the scatter
        ((3.0, 3.0), 1.5, 3 / math.sqrt(2), "weighted_mean"),  # propagated
    ],
)
def test_a_mean_of_measurements_says_what_its_uncertainty_is(
    errors: tuple[float | None, float | None], mean: float, error: float, kind: str
) -> None:
    """Values of people and files state no kind."""
    found = pooled_quantity([Quantity(value, "eV", each) for value, each in zip((1.0, 2.0), errors, strict=True)])
    assert (found.value, found.uncertainty) == (pytest.approx(mean), pytest.approx(error))
    assert found.uncertainty_kind == kind
