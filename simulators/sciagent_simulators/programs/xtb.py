"""The program `xtb`: single points and relaxations by GFN2-xTB and GFN1-xTB, read from its JSON file.

Measured with xtb 6.5.1: an unknown method (`--gfn 7`) becomes GFN2-xTB, an impossible number of unpaired electrons is
ignored, and a relaxation that did not converge ends with status 0, "normal termination" and the file `.xtboptok`.
Method, electrons and convergence are therefore checked one by one. A restart file in the folder would hide that the
charges do not converge, so each run has a folder of its own.

Source: Bannwarth et al., WIREs Comput. Mol. Sci. 11, e1493 (2021).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sciagent.domain.outcomes import Reason
from sciagent.programs import XTB
from sciagent_simulators.geometry import Geometry, check, failure
from sciagent_simulators.implicit_solvent import Solvation
from sciagent_simulators.programs.result import ProgramResult, checked
from sciagent_simulators.programs.running import ProgramOutput, Reasons, failed, run
from sciagent_simulators.tblite_engine import BOHR, DEBYE, HARTREE, HEAVIEST, frontier

GfnLevel = Literal["GFN2-xTB", "GFN1-xTB"]
ACCURACY = 0.01  # xtb's default, 1, converges charges to 1e-4 and dipoles to 0.001 D only
CYCLES = 250
REASONS: Reasons = {
    r"failed to converge geometry optimization|geometry optimization did not converge": Reason.GEOMETRY_NOT_CONVERGED,
    r"self consistent charge iterator did not converge": Reason.SCF_NOT_CONVERGED,
    r"is not parametrized": Reason.SOLVENT,
    r"no parametrization|no parameters for element|unknown element": Reason.ELEMENT,
    r"could not (read|setup)|invalid (argument|geometry)|unknown option": Reason.BAD_INPUT,
}
UNPAIRED = "number of unpaired electrons"
NO_RESULT = "has written no result (xtbout.json)"


def xtb(
    geometry: Geometry,
    method: GfnLevel,
    folder: Path,
    solvation: Solvation | None = None,
    relax: bool = False,
    threads: int = 1,
) -> tuple[ProgramResult, ProgramOutput]:
    """Returns the result of a single point or a relaxation, and the program's output.

    folder: a new one. Raises SimulatorError as `run` and `checked` do, and for every failure that the output names.
    """
    check(geometry)
    if max(geometry.numbers) > HEAVIEST:
        raise failure(Reason.ELEMENT, f"atomic number {max(geometry.numbers)}; parameters end at {HEAVIEST}")
    arguments = ["molecule.xyz", "--gfn", method[3], *state_of(geometry, solvation)]
    arguments += ["--json", "--norestart", "--acc", str(ACCURACY), "--iterations", str(CYCLES)]
    if relax:
        arguments += ["--opt", "tight"]
    output = run(XTB, arguments, folder, threads, {"molecule.xyz": geometry.to_xyz()})
    return read(output, geometry, method, relax), output


def state_of(geometry: Geometry, solvation: Solvation | None) -> list[str]:
    """Returns the arguments of xtb and CREST for charge, unpaired electrons and solvent."""
    arguments = ["--chrg", str(geometry.charge), "--uhf", str(geometry.unpaired)]
    if solvation is not None:
        model, solvent, _ = solvation.arguments()
        arguments += [f"--{model.removesuffix('-solvation')}", solvent]  # xtb's default state is that of tblite's gsolv
    return arguments


def read(output: ProgramOutput, asked: Geometry, method: GfnLevel, relax: bool) -> ProgramResult:
    """Returns the result in the folder. Raises SimulatorError with the reason where there is none."""
    values = _values(output)
    unpaired = int(values[UNPAIRED])
    if relax and "GEOMETRY OPTIMIZATION CONVERGED" not in output.text:
        raise failed(output, REASONS, "says nothing of a converged relaxation")
    if values["method"] != method:
        raise failure(Reason.BAD_RESULT, f"xtb computed {values['method']}; asked for {method}")
    geometry = _relaxed(output.folder / "xtbopt.xyz", asked) if relax else asked
    occupations = np.asarray(values["fractional occupation"], dtype=float)
    if unpaired != asked.unpaired:
        raise failure(Reason.BAD_RESULT, f"{unpaired} unpaired electrons; {asked.unpaired} asked for")
    homo, lumo = frontier(np.asarray(values["orbital energies/eV"], dtype=float), occupations, asked.unpaired)
    dipole = np.asarray(values["dipole"], dtype=float) - asked.charge * geometry.atoms.get_center_of_mass() / BOHR
    energy = float(values["total energy"]) * HARTREE
    result = ProgramResult(energy, homo, lumo, float(np.linalg.norm(dipole)) * DEBYE, geometry)
    return checked(result, asked, relax)


def _values(output: ProgramOutput) -> Mapping[str, Any]:
    """Returns the content of xtbout.json. Raises SimulatorError if xtb failed or the file is incomplete."""
    needed = ("total energy", "dipole", "orbital energies/eV", "fractional occupation", UNPAIRED, "method")
    file = output.folder / "xtbout.json"
    if output.status or not file.is_file() or "normal termination of xtb" not in output.text:
        raise failed(output, REASONS, NO_RESULT)
    try:
        values: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise failed(output, REASONS, f"its result has no JSON form: {error}") from error
    if missing := [name for name in needed if name not in values]:
        raise failed(output, REASONS, f"its result lacks {', '.join(missing)}")
    return values


def _relaxed(file: Path, asked: Geometry) -> Geometry:
    """Returns the geometry of an XYZ file that xtb wrote. Raises SimulatorError crashed (bad_result)."""
    rows = re.findall(r"^\s*[A-Z][a-z]?((?:\s+-?\d+\.\d+){3})\s*$", file.read_text(encoding="utf-8"), re.MULTILINE)
    if len(rows) != len(asked.numbers):
        raise failure(Reason.BAD_RESULT, f"{len(rows)} atoms in {file.name}, {len(asked.numbers)} were asked for")
    return asked.moved(np.array([row.split() for row in rows], dtype=float))
