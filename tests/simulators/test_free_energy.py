"""Harmonic wells u(x) = k x^2 / 2 + c, whose free energies are ln(k) / 2 + c in kT but for a constant."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics.free_energy import Array, bar, mbar

STIFF = 9.0
OFFSET = 2.0
EXACT = 0.5 * math.log(STIFF) + OFFSET
"""Free energy of the well with k = 9 and c = 2 less that of the well with k = 1 and c = 0."""


def difference(x: Array) -> Array:
    """Returns the potential of the second well less that of the first."""
    return (STIFF - 1) * x**2 / 2 + OFFSET


def samples(generator: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    return generator.standard_normal(n), generator.standard_normal(m) / math.sqrt(STIFF)


@pytest.mark.parametrize(("n", "m"), [(2000, 2000), (4000, 500)])
def test_bar_of_harmonic_wells_is_exact_within_its_error(n: int, m: int) -> None:
    first, second = samples(np.random.default_rng(1), n, m)
    found = bar(difference(first), -difference(second))
    assert abs(found.value - EXACT) < 3 * found.uncertainty
    assert 0.005 < found.uncertainty < 0.06


def test_the_error_of_bar_is_the_scatter_of_many_draws() -> None:
    """300 draws: their scatter is known within 4 percent, three times which is allowed."""
    generator = np.random.default_rng(2)
    draws = []
    for _ in range(300):
        first, second = samples(generator, 300, 200)
        draws.append(bar(difference(first), -difference(second)))
    values = np.array([draw.value for draw in draws])
    stated = math.sqrt(np.mean([draw.uncertainty**2 for draw in draws]))
    assert values.std(ddof=1) == pytest.approx(stated, rel=0.12)
    assert values.mean() == pytest.approx(EXACT, abs=3 * stated / math.sqrt(300) + 0.005)


def test_the_overlap_is_the_integral_over_both_densities() -> None:
    """The integral of p q / (p + q) over x, by the trapezoidal rule."""
    x = np.linspace(-8, 8, 20001)
    p = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    q = np.exp(-STIFF * x**2 / 2) * math.sqrt(STIFF / (2 * math.pi))
    exact = float(np.trapezoid(p * q / (p + q), x))
    first, second = samples(np.random.default_rng(3), 20_000, 20_000)
    assert bar(difference(first), -difference(second)).overlap == pytest.approx(exact, abs=0.01)


def test_mbar_equals_bar_for_two_states() -> None:
    first, second = samples(np.random.default_rng(4), 1500, 700)
    every = np.concatenate([first, second])
    potentials = np.array([every**2 / 2, STIFF * every**2 / 2 + OFFSET])
    by_bar = bar(difference(first), -difference(second))
    by_mbar = mbar(potentials, [1500, 700])
    assert by_mbar.values[0, 1] == pytest.approx(by_bar.value, abs=1e-6)
    assert by_mbar.uncertainties[0, 1] == pytest.approx(by_bar.uncertainty, rel=0.1)
    assert by_mbar.overlap.sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-6)


def test_mbar_of_a_series_of_wells_is_exact_within_its_error() -> None:
    generator = np.random.default_rng(5)
    stiffness = np.array([1.0, 2.5, 6.0, 15.0])
    x = np.concatenate([generator.standard_normal(800) / math.sqrt(k) for k in stiffness])
    found = mbar(stiffness[:, None] * x**2 / 2, [800] * 4)
    exact = 0.5 * np.log(stiffness)
    assert (np.abs(found.values[0, 1:] - exact[1:]) < 3 * found.uncertainties[0, 1:]).all()


def test_states_without_common_configurations_are_refused() -> None:
    """Two equal wells 12 standard deviations apart: BAR alone would give a difference with an error."""
    generator = np.random.default_rng(6)
    first = generator.standard_normal(500)
    second = 12 + generator.standard_normal(500)
    to_second = (first - 12) ** 2 / 2 - first**2 / 2
    to_first = second**2 / 2 - (second - 12) ** 2 / 2
    with pytest.raises(SimulatorError, match="states 0 and 1 overlap") as error:
        bar(to_second, to_first)
    assert (error.value.outcome, error.value.reason) == (Outcome.NOT_CONVERGED, Reason.NO_OVERLAP)
    every = np.concatenate([first, second])
    with pytest.raises(SimulatorError, match="put states in between"):
        mbar(np.array([every**2 / 2, (every - 12) ** 2 / 2]), [500, 500])


def test_equal_states_differ_by_nothing() -> None:
    found = bar(np.zeros(50), np.zeros(50))
    assert found.value == pytest.approx(0, abs=1e-9)
    assert found.uncertainty == pytest.approx(0, abs=1e-9)
    assert found.overlap == pytest.approx(0.5)


def test_bad_samples_are_refused() -> None:
    with pytest.raises(SimulatorError, match="9 samples") as error:
        bar(np.zeros(9), np.zeros(50))
    assert error.value.reason == Reason.NOT_EQUILIBRATED
    with pytest.raises(SimulatorError, match="NaN") as error:
        bar(np.full(50, math.inf), np.zeros(50))
    assert error.value.reason == Reason.NOT_FINITE
    with pytest.raises(ValueError, match="add up"):
        mbar(np.zeros((2, 40)), [20, 30])
    with pytest.raises(ValueError, match="do not fit"):
        mbar(np.zeros((2, 40)), [20, 10, 10])


def test_pymbar_is_imported_late_and_without_a_word() -> None:
    code = (
        "import sys, numpy as np\n"
        "from sciagent_simulators.dynamics import free_energy\n"
        "assert 'pymbar' not in sys.modules\n"
        "free_energy.mbar(np.zeros((2, 40)), [20, 20])\n"
        "assert 'pymbar' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
