"""What is Gaussian's alone: its input, and the origin of its dipoles. Its recorded outputs are read in `test_orca`."""

from __future__ import annotations

import pytest

from sciagent_simulators.programs import gaussian
from sciagent_simulators.programs.program_scf import Machine, ProgramMethod
from tests.simulators.recorded import CATION, read


def test_the_dipole_of_an_ion_is_moved_to_its_centre_of_mass() -> None:
    """Gaussian's origin is the centre of nuclear charge, 0.0501 angstrom from water's centre of mass: 0.2408 D."""
    assert read("gaussian_water_cation", CATION).dipole == pytest.approx(2.5 + 0.2408, abs=2e-3)


def test_gaussians_input_says_what_was_asked_for() -> None:
    method = ProgramMethod("PBE0", "def2-TZVP", "d3bj", "octanol", "SMD", ("NoSymm",), True, 80, 30)
    text = gaussian.input_text(CATION, method, Machine(4, 10000))
    assert text.startswith("%nprocshared=4\n%mem=7000MB\n#P PBE1PBE/def2TZVP SCF=(Tight,MaxCycle=80)")
    assert (
        "EmpiricalDispersion=GD3BJ Opt=(MaxCycles=30) SCRF=(SMD,Solvent=n-Octanol)\nNoSymm\n\nsciagent\n\n1 2\nO "
        in text
    )
    assert text.endswith("\n\n")
