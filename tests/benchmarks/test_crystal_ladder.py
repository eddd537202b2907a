"""The priors of `gpaw.bands` are those of the committed table of perovskites."""

from __future__ import annotations

import json

import pytest

from benchmarks.crystals import ladder
from sciagent_verifiers.high_fidelity.gpaw_bands import GpawBands


def test_the_report_is_that_of_the_table_and_its_fit_is_the_prior() -> None:
    report = json.loads(json.dumps(ladder.report()))
    assert report == json.loads(ladder.REPORT.read_text())
    fit, (prior,) = report["fast against standard"]["all"], GpawBands.priors
    assert (prior.n, prior.level) == (fit["n"], GpawBands().settings.level.label)
    for name in ("spearman", "slope", "intercept", "residual"):
        assert getattr(prior, name) == pytest.approx(fit[name], abs=0.006), name
