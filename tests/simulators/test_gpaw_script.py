"""Failures of GPAW by name, as the script in GPAW's own Python reports them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.periodic.gpaw_calculation_and_band_gap import GPAW, SCRIPT
from sciagent_simulators.periodic.gpaw_script import named_failure
from sciagent_simulators.programs.foreign_script import run_script

MOVES = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import gpaw_script

def moved(request, world):
    from ase import Atoms
    from gpaw import GPAW
    atoms = Atoms("He2", cell=[3, 3, 3], pbc=True, scaled_positions=[(0, 0, 0), (0.5, 0.5, 0.5)])
    atoms.calc = GPAW(mode={{"name": "pw", "ecut": 150}}, txt=None, convergence={{"density": 1e-2, "energy": 1e-2}})
    atoms.get_potential_energy()
    atoms.positions[1] += (0.1, 0.05, 0.02)
    atoms.get_potential_energy()

gpaw_script.computed = moved
gpaw_script.main()
"""
"""A script that moves an atom within one calculation, as no calculation of sciagent does, and names the failure."""


class KohnShamConvergenceError(Exception):
    """GPAW's own, whose text is empty."""


class SymmetryBrokenError(Exception):
    """GPAW's own."""


@pytest.mark.parametrize(
    ("error", "reason", "says"),
    [
        (KohnShamConvergenceError(), "scf_not_converged", "did not converge"),
        (KohnShamConvergenceError("Not converged"), "scf_not_converged", "Not converged"),
        (SymmetryBrokenError(), "symmetry_broken", "lost the symmetry"),
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


@pytest.mark.usefixtures("gpaw_program")
def test_positions_that_lose_the_symmetry_have_a_name_in_every_version(tmp_path: Path) -> None:
    """GPAW 22.8 raises a RuntimeError, GPAW 26.7 an error of its own."""
    (script := tmp_path / "moves.py").write_text(MOVES)
    with pytest.raises(SimulatorError) as error:
        run_script(GPAW, script, {}, tmp_path / "work")
    assert (error.value.outcome, error.value.reason) == (Outcome.CRASHED, Reason.SYMMETRY_BROKEN), error.value.detail
    assert "symmetry" in error.value.detail
