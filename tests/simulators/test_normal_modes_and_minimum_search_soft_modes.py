from __future__ import annotations

import numpy as np
import pytest

from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import NOISE, soft_mode_scatter

KT = 8.617333262e-5 * 298.15


def test_a_soft_mode_scatters_as_its_squared_frequency_and_the_free_energy_as_half_its_logarithm():
    """The entropy of a free rotor is -k/2 ln(frequency) and a constant, which is 98 % of it at 10 cm^-1."""
    scatter = soft_mode_scatter(np.array([1500.0, 10.0]), 298.15)
    other = np.sqrt(100 + NOISE)
    assert scatter.lowest == pytest.approx(other - 10)
    assert scatter.gibbs == pytest.approx(KT / 2 * np.log(other / 10), rel=0.03)
    assert scatter.zero_point == pytest.approx(1.239841984e-4 / 2 * (other - 10), rel=0.01)


def test_stiff_modes_add_next_to_nothing():
    scatter = soft_mode_scatter(np.array([400.0, 1500.0, 3600.0]), 298.15)
    assert scatter.lowest < 0.4 and scatter.gibbs < 1e-4


def test_an_atom_has_no_modes():
    assert soft_mode_scatter(np.array([]), 298.15).lowest is None
