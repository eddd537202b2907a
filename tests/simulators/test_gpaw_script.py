"""Failures of GPAW by name, as the script in GPAW's own Python reports them."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent_simulators.periodic.gpaw_script import named_failure


class KohnShamConvergenceError(Exception):
    """GPAW's own, whose text is empty."""


class SymmetryBrokenError(Exception):
    """GPAW's own."""


@pytest.mark.parametrize(
    ("error", "reason", "says"),
    [
        (KohnShamConvergenceError(), "scf_not_converged", "did not converge"),
        (KohnShamConvergenceError("Not converged"), "scf_not_converged", "Not converged"),
        (SymmetryBrokenError("Broken symmetry!"), "symmetry_broken", "Broken symmetry"),
        (np.linalg.LinAlgError("Singular matrix"), "overlapping_atoms", "Singular matrix"),
        (FileNotFoundError('Could not find required PAW dataset file "Po.PBE"'), "missing_setup", "Po.PBE"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_failure_has_a_reason_and_a_text(error: Exception, reason: str, says: str) -> None:
    named = named_failure(error)
    assert named is not None and named[0] == reason and says in named[1]


@pytest.mark.parametrize("error", [FileNotFoundError("ground.gpw"), ValueError("a fault")])
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    assert named_failure(error) is None
