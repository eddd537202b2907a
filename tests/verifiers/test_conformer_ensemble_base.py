"""Ensembles of different surfaces share their averages; their settings and levels are their own."""

from __future__ import annotations

import pytest

from sciagent_verifiers.programs.crest_conformers import CrestConformers
from sciagent_verifiers.simulation.xtb_conformers import XtbConformers


@pytest.mark.parametrize(
    ("verifier", "digest"),
    [
        (XtbConformers(), "6b87527ed23252dafe3eb5e2803ed852f17f7d37fccf7c09c21ef59c11368820"),
        (CrestConformers(), "f585fe48a43fb2071b02fcd76374dfc2b1e7a8b9479dce8ddb0bd27da83351f7"),
    ],
    ids=["xtb", "crest"],
)
def test_the_settings_have_the_hash_that_ledgers_hold(verifier: XtbConformers | CrestConformers, digest: str) -> None:
    assert verifier.settings_hash == digest


def test_the_level_names_solvent_sampling_and_window() -> None:
    wet = XtbConformers({"solvent": "water", "embed": 20, "window": 3, "temperature": 310})
    assert wet.level.label == ("GFN2-xTB+ALPB(water)//GFN2-xTB(water)//ETKDGv3x20, ensemble of 3 kcal/mol at 310 K")
    quick = CrestConformers({"mode": "quick"})
    assert quick.level.label == "GFN2-xTB//GFN2-xTB//CREST quick, ensemble of 4 kcal/mol at 298.15 K"
    assert len(quick.measures) == 5
