"""The table of what the quickstart's rungs really said, and what is declared on its ground."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks.scheduling.live import OBJECTIVES, case
from sciagent.scheduling.rules.priced import Priced
from sciagent_bench.replay_once import simulate
from sciagent_verifiers.simulation.xtb_singlepoint import XtbSinglepoint


@pytest.mark.parametrize(("prior", "below"), [(0, 6.0), (1, 99.0)], ids=["gap", "dipole"])
def test_the_declared_priors_are_fits_to_it(prior: int, below: float) -> None:
    declared = XtbSinglepoint.priors[prior]
    scores = case().wide.scores
    x, y = scores[:, prior], scores[:, prior + 2]
    rows = ~np.isnan(x + y) & (x < below)
    slope, intercept = np.polyfit(x[rows], y[rows], 1)
    left = np.std(y[rows] - slope * x[rows] - intercept, ddof=2)
    assert declared.n == rows.sum()
    assert (declared.slope, declared.intercept) == (pytest.approx(slope, abs=0.01), pytest.approx(intercept, abs=0.01))
    assert declared.residual == pytest.approx(left, abs=0.01)
    assert declared.spearman == pytest.approx(spearmanr(x[rows], y[rows])[0], abs=0.01)


def test_hits_meet_both_objectives_and_the_replay_finds_them_all() -> None:
    found = case()
    low, high = OBJECTIVES["gap_eV"]
    gap, dipole = found.wide.scores[:, 2], found.wide.scores[:, 3]
    expected = (gap >= low) & (gap <= high) & (dipole <= OBJECTIVES["dipole_D"][1])
    assert np.array_equal(found.truth.hit, expected)
    assert found.wide.hit.sum() >= 5
    run = simulate(found.wide, Priced(found.aims, found.similarity, 0, found.wide.exhaustive), 1.0)
    assert sum(run.hit) == found.wide.hit.sum()
    assert run.spent <= found.wide.exhaustive
