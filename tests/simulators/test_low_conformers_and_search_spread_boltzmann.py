"""Weights and averages by hand; probabilities of a search by drawing."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent_simulators.conformer_search_and_averages import (
    BOLTZMANN,
    AverageKind,
    ConformerPopulation,
    set_probabilities,
)

KT = BOLTZMANN * 298.15
BUTANE = ConformerPopulation(
    np.array([0.0, KT]), np.array([1.0, 2.0]), 298.15
)  # anti, and gauche of both signs, 1 kT above
GAUCHE = 2 / (2 + np.e)


def test_weights_count_energies_and_wells() -> None:
    assert BUTANE.weights == pytest.approx([1 - GAUCHE, GAUCHE])


def test_the_averages_are_those_by_hand() -> None:
    values = np.array([1.0, 3.0])
    assert BUTANE.average(AverageKind.MEAN, values) == pytest.approx(1 + 2 * GAUCHE)
    assert BUTANE.average(AverageKind.ROOT_MEAN_SQUARE, values) == pytest.approx((1 + 8 * GAUCHE) ** 0.5)
    free = BUTANE.average(AverageKind.FREE_ENERGY, np.array([-5.0, -5.0 + KT]))
    assert free == pytest.approx(-5.0 - KT * np.log(1 + 2 / np.e))
    change = BUTANE.average(AverageKind.FREE_ENERGY_CHANGE, np.array([-0.1, -0.1 - KT]))
    assert change == pytest.approx(-0.1 - KT * np.log(1 - GAUCHE + GAUCHE * np.e))


def test_the_free_energy_of_a_change_is_the_difference_of_two_free_energies() -> None:
    """-kT ln sum d exp(-(E + x)/kT) + kT ln sum d exp(-E/kT): a solvation free energy with its conformers."""
    change = np.array([-0.2, -0.35])
    ends = [ConformerPopulation(BUTANE.energies, BUTANE.degeneracies, 298.15).average(AverageKind.FREE_ENERGY, e)
            for e in (BUTANE.energies + change, BUTANE.energies)]  # fmt: skip
    assert BUTANE.average(AverageKind.FREE_ENERGY_CHANGE, change) == pytest.approx(ends[0] - ends[1])


def test_one_conformer_is_its_own_average_without_spread() -> None:
    alone = ConformerPopulation(np.array([-1.0]), np.array([1.0]), 298.15)
    for kind in AverageKind:
        assert alone.average(kind, np.array([2.5])) == pytest.approx(2.5)
        assert alone.spread(kind, np.array([2.5]), np.array([10]), 10) == 0


def test_the_probabilities_of_a_search_are_those_of_drawing() -> None:
    """Seven embedded: 4 ended in the first conformer, 2 in the second, 1 in one that is not computed."""
    found = np.array([4, 2])
    random = np.random.default_rng(1)
    drawn = random.choice(3, size=(200_000, 7), p=[4 / 7, 2 / 7, 1 / 7])
    sets = (drawn == 0).any(axis=1) + 2 * (drawn == 1).any(axis=1)
    assert set_probabilities(found, 7) == pytest.approx(np.bincount(sets, minlength=4) / 200_000, abs=0.003)


def test_the_spread_is_that_of_averages_over_repeated_searches() -> None:
    values, found = np.array([1.0, 3.0]), np.array([9, 1])
    without = 0.9**10  # the second is missing: 35 %
    both = BUTANE.average(AverageKind.MEAN, values)
    expected = (both - 1.0) * (without * (1 - without)) ** 0.5
    assert BUTANE.spread(AverageKind.MEAN, values, found, 10) == pytest.approx(expected, rel=1e-6)
