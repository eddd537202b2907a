"""Reads the recorded outputs of ORCA and Gaussian in `recorded_programs`.

The outputs are excerpts that were written for these tests after the formats of ORCA 5 and 6 and Gaussian 16, with the
values of PySCF (PBE0/def2-SVP) on the same geometries. No output of a program was copied.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.programs import program_scf
from sciagent_simulators.programs.gaussian import GAUSSIAN_SCF
from sciagent_simulators.programs.orca import ORCA_SCF
from sciagent_simulators.programs.program_scf import ProgramResult
from sciagent_simulators.programs.run_program_and_name_failure import ProgramOutput

FOLDER = Path(__file__).parent / "recorded_programs"
HARTREE = 27.211386245988
PLACES = np.array([[0.000110, 0.379410, 0], [-0.772259, -0.189481, 0], [0.772149, -0.189928, 0]])
WATER = Geometry((8, 1, 1), PLACES)
CATION = Geometry((8, 1, 1), PLACES, 1, 2)
PROGRAMS = {"orca": ORCA_SCF, "gaussian": GAUSSIAN_SCF}


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def read(name: str, asked: Geometry = WATER, relax: bool = False, text: str | None = None) -> ProgramResult:
    kind = PROGRAMS[name.split("_")[0]]
    return program_scf.read(kind, ProgramOutput(kind.program, "x", FOLDER, 0, text or text_of(name)), asked, relax)
