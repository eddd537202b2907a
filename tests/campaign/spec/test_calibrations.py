"""The calibrations that a campaign file asks for, and those that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.spec.calibrations import calibrations
from sciagent.errors import SpecError
from tests.campaign.fake_verifiers import changed, make_folder  # noqa: F401

OBJECTIVE = "    scale: 0.5\n"
RUNG = "    limits: {wall_seconds: 120}\n"
LINEAR = "    calibrate: {from: measured, kind: linear}\n"


@pytest.mark.parametrize("place", [OBJECTIVE, RUNG])
def test_an_objective_or_its_rung_asks_for_the_same_calibration(place: str, folder: Path) -> None:
    spec = changed(folder, (place, place + LINEAR))
    [wanted] = calibrations(spec.objectives, spec.ladder, spec.terminal_position)
    assert (spec.ladder[wanted.position].rung, wanted.property, wanted.stated.kind) == (
        "dft",
        "homo_lumo_gap",
        "linear",
    )


def test_a_calibration_that_is_stated_twice_is_refused(folder: Path) -> None:
    with pytest.raises(SpecError, match='rung "dft", which measures it, states calibrate, too'):
        changed(folder, (OBJECTIVE, OBJECTIVE + LINEAR), (RUNG, RUNG + LINEAR))


def test_a_rung_without_a_property_of_the_campaign_is_not_calibrated(folder: Path) -> None:
    gate = "      sa_score: {max: 4}\n"
    with pytest.raises(SpecError, match="no gate of the rung and no objective names a property"):
        changed(folder, ("    gate:\n" + gate, LINEAR))
