from __future__ import annotations

import numpy as np
import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry, failure
from sciagent_simulators.tblite_engine import relax
from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import (
    MAX_ROUNDS,
    minimum,
    normal_modes,
    real_frequencies,
)
from sciagent_simulators.thermochemistry.tblite_hessian import tblite_hessian

ANGLES = np.radians([0, 120, 240])
PLANAR = Geometry((7, 1, 1, 1), np.array([[0, 0, 0], *([np.cos(a), np.sin(a), 0] for a in ANGLES)]))


def relaxed(geometry):
    return relax(geometry, fmax=0.01)


def modes_of(geometry, _):
    return normal_modes(geometry, tblite_hessian(geometry))


def test_planar_ammonia_ends_as_a_pyramid():
    """Nitrogen is 0.38 angstrom above the hydrogens in experiment; the lowest mode of the minimum is the inversion."""
    place = minimum(PLANAR, relaxed, modes_of, 50.0)
    height = place.geometry.positions[0] - place.geometry.positions[1:].mean(axis=0)
    assert np.linalg.norm(height) == pytest.approx(0.38, abs=0.05)
    assert place.modes.frequencies[0] == pytest.approx(1160, abs=15)
    assert place.tried.startswith("displaced both ways along ") and place.tried.endswith(" and relaxed again")


def test_a_minimum_is_left_where_it_is():
    pyramid = minimum(PLANAR, relaxed, modes_of, 50.0).geometry
    place = minimum(pyramid, lambda geometry: (geometry, relaxed(geometry)[1]), modes_of, 50.0)
    assert place.tried == "" and np.array_equal(place.geometry.positions, pyramid.positions)


def test_a_saddle_point_that_stays_one_is_given_up_with_what_was_tried():
    """The relaxation of this test always returns to the plane."""
    plane, result = relaxed(PLANAR)
    place = minimum(PLANAR, lambda _: (plane, result), modes_of, 50.0)
    assert place.tried.endswith(f"and relaxed again, {MAX_ROUNDS} times")
    with pytest.raises(SimulatorError, match=r"not a minimum: 1 .*; displaced both ways along \d+i cm"):
        real_frequencies(place.modes, plane, 50.0, place.tried)


def test_an_end_that_is_another_molecule_is_left_out():
    """If both ends are, the search ends at the saddle point."""
    plane, result = relaxed(PLANAR)
    calls = []

    def failing(geometry):
        calls.append(geometry)
        if len(calls) > 1:
            raise failure(Reason.BOND_CHANGED, "1 bond(s) broke")
        return plane, result

    place = minimum(PLANAR, failing, modes_of, 50.0)
    assert len(calls) == 3 and place.geometry is plane and place.modes.imaginary(50.0)
