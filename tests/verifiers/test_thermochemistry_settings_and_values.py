from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.properties_and_levels import GIBBS_FREE_ENERGY, LOWEST_FREQUENCY, ZERO_POINT_ENERGY
from sciagent.verification.verifier_contract import Finding, Level
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import NormalModes, Stationary
from sciagent_verifiers.thermochemistry_settings_and_values import (
    ThermalSettings,
    thermal_measures,
    thermal_values,
    with_frequencies,
)

WATER = Geometry((8, 1, 1), np.array([[0, 0, 0.1173], [0, 0.7572, -0.4692], [0, -0.7572, -0.4692]]))
MODES = NormalModes(np.array([1595.0, 3657.0, 3756.0]), np.eye(9)[:3].reshape(3, 3, 3))
STATIONARY = Stationary(WATER, None, MODES, "")
LEVEL = Level("PBE0", "def2-SVP", "gas", "PBE0/def2-SVP")


def test_the_level_says_temperature_state_and_scale():
    labels = [m.level.label for m in thermal_measures(LEVEL, ThermalSettings(), None)]
    assert labels[0] == "PBE0 harmonic (298.15 K, 1 atm)/def2-SVP//PBE0/def2-SVP"
    assert labels[-1] == "PBE0 harmonic/def2-SVP//PBE0/def2-SVP"
    scaled = ThermalSettings(scale=0.96, temperature=350, pressure=0.5)
    assert thermal_measures(LEVEL, scaled, None)[0].level.method == "PBE0 harmonic x 0.96 (350 K, 0.5 atm)"
    assert thermal_measures(LEVEL, ThermalSettings(), "water")[0].level.method == "PBE0 harmonic (298.15 K, 1 mol/L)"


def test_values_of_water_are_those_of_the_tables():
    """H(298) - H(0) is 9.904 kJ/mol and S 188.84 J/(mol K) at 1 bar (NIST-JANAF), 188.73 at 1 atm."""
    values, facts, note = thermal_values(STATIONARY, -2000.0, ThermalSettings(), None)
    assert note == "" and facts["symmetry_number"] == 2 and facts["conditions"] == "298.15 K, 1 atm"
    assert values[ZERO_POINT_ENERGY] == pytest.approx(0.5584, abs=1e-4)  # 9008 cm^-1 / 2
    correction = values[GIBBS_FREE_ENERGY] + 2000.0 - values[ZERO_POINT_ENERGY]
    assert correction * 96.485 == pytest.approx(9.904 - 298.15 * 0.18873, abs=0.1)
    assert values[LOWEST_FREQUENCY] == pytest.approx(1595)


def test_a_scale_acts_on_frequencies_and_a_symmetry_number_can_be_given():
    plain, scaled = (thermal_values(STATIONARY, 0.0, ThermalSettings(scale=x), None)[0] for x in (1.0, 0.9))
    assert scaled[ZERO_POINT_ENERGY] == pytest.approx(0.9 * plain[ZERO_POINT_ENERGY])
    given = thermal_values(STATIONARY, 0.0, ThermalSettings(symmetry_number=1), None)[0]
    expected = -8.617333e-5 * 298.15 * np.log(2)
    assert given[GIBBS_FREE_ENERGY] - plain[GIBBS_FREE_ENERGY] == pytest.approx(expected, abs=1e-6)


def test_the_table_of_modes_is_a_file(tmp_path):
    bare = Finding("k" * 20, Outcome.OK)
    (artifact,) = with_frequencies(bare, tmp_path, WATER, MODES, 1.0).artifacts
    with Path(artifact.path).open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["frequency_cm^-1"]) for row in rows] == [1595, 3657, 3756]
    assert rows[0]["mainly_moving"] == "O1" and artifact.media_type == "text/csv"


def test_settings_have_limits():
    for wrong in ({"temperature": 0}, {"pressure": -1}, {"scale": 3}, {"symmetry_number": 0}):
        with pytest.raises(ValidationError):
            ThermalSettings(**wrong)
