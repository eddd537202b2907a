"""The input of ORCA."""

from __future__ import annotations

from sciagent_simulators.programs import orca
from sciagent_simulators.programs.program_scf import Machine, ProgramMethod
from tests.simulators.recorded import CATION, WATER


def test_orcas_input_says_what_was_asked_for() -> None:
    method = ProgramMethod("B3LYP", "def2-TZVP", "d3bj", "dimethyl sulfoxide", "SMD", ("NoCOSX",), True, 80, 30)
    lines = orca.input_text(CATION, method, Machine(4, 8000)).splitlines()
    assert lines[0] == "! B3LYP/G def2-TZVP D3BJ TightSCF NoCOSX Opt"
    assert "%maxcore 1500" in lines and "%pal nprocs 4 end" in lines and "%geom MaxIter 30 end" in lines
    assert '  SMDsolvent "dimethylsulfoxide"' in lines and "* xyz 1 2" in lines and lines[-1] == "*"
    polar = orca.input_text(WATER, ProgramMethod("HF", "def2-SVP", None, "water", "C-PCM"), Machine())
    assert "  epsilon 78.355" in polar.splitlines()
