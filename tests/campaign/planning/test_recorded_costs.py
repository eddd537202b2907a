"""The costs of a plan after the first job of a campaign hold what that campaign cost in the end.

Recorded: the core-seconds of 206 molecules at GFN2-xTB and at PBE0/def2-SVP (benchmarks/scheduling).
"""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sciagent.campaign.people.verify_calculate_and_add import rungs_for
from sciagent.chemistry.molecule import parse_molecule
from sciagent.scheduling.array_types import Array
from sciagent.verification.cost_models import expected_ratio, ratio_90th_percentile

RECORDED = Path(__file__).parents[3] / "benchmarks" / "scheduling" / "live.csv.gz"


@cache
def ratios(verifier: str, column: str) -> Array:
    """Actual over declared core-seconds, in the order of the jobs."""
    rung = rungs_for(verifier, {}, Path())[-1]
    found = []
    with gzip.open(RECORDED, "rt") as file:
        for row in csv.DictReader(file):
            declared = rung.declared_cost(parse_molecule(row["smiles"]))
            if row[column] and declared is not None:
                found.append(float(row[column]) / declared["core_seconds"])
    return np.array(found)


CASES = pytest.mark.parametrize(
    ("verifier", "column"), [("xtb.singlepoint", "xtb_core_seconds"), ("pyscf.scf", "dft_core_seconds")]
)


@CASES
def test_after_any_first_job_the_range_holds_the_mean_cost_of_all_jobs(verifier: str, column: str) -> None:
    recorded = ratios(verifier, column)
    upper = np.array([ratio_90th_percentile([first]) for first in recorded])
    lower = np.array([expected_ratio([first]) for first in recorded]) ** 2 / upper  # as far below, in logarithms
    holds = (lower <= recorded.mean()) & (recorded.mean() <= upper)
    assert len(recorded) > 200 and np.mean(holds) > 0.9


@CASES
def test_the_first_job_brings_the_estimate_nearer_to_the_truth(verifier: str, column: str) -> None:
    """Against the declared cost alone, on a machine that is three times as slow as the one of the declarations."""
    slow = 3 * ratios(verifier, column)
    errors = [abs(np.log(expected_ratio([first]) / slow.mean())) for first in slow]
    assert np.median(errors) < 0.5 * abs(np.log(slow.mean()))
