"""The programs `xtb` and `crest`: single points and relaxations by GFN2-xTB and GFN1-xTB, and a search for conformers.

Results are read from the JSON file of `xtb`. Measured with xtb 6.5.1: an unknown method (`--gfn 7`) becomes GFN2-xTB,
an impossible number of unpaired electrons is ignored, and a relaxation that did not converge ends with status 0,
"normal termination" and the file `.xtboptok`. Method, electrons and convergence are therefore checked one by one. A
restart file in the folder would hide that the charges do not converge, so each run has a folder of its own.

Source: Bannwarth et al., WIREs Comput. Mol. Sci. 11, e1493 (2021).

CREST samples conformers by metadynamics and genetic crossing (iMTD-GC) in GFN2-xTB. They are relaxed again and compared
by module `conformer_search_and_averages`, so that conformers, mirror images and equivalent wells are counted as in
`xtb.conformers`; CREST itself merges mirror images. The energies that CREST wrote have to agree with those of GFN2-xTB
by tblite at the same geometries, in the same solvent.

Sources: Pracht, Bohle, Grimme, Phys. Chem. Chem. Phys. 22, 7169 (2020); Pracht et al., J. Chem. Phys. 160, 114110
(2024).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.programs import Program
from sciagent_simulators.geometry_and_its_checks import Geometry, check, failure
from sciagent_simulators.programs.program_scf import ProgramResult, checked
from sciagent_simulators.programs.run_program_and_name_failure import ProgramOutput, Reasons, failed, run
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation
from sciagent_simulators.tblite_engine import BOHR, DEBYE, HARTREE, HEAVIEST, energies, frontier

XTB = Program(
    name="xtb",
    title="xtb",
    variable="SCIAGENT_XTB",
    commands=("xtb",),
    question=("--version",),
    answer=r"xtb version (\S+)",
    source="Debian and Ubuntu: apt-get install xtb; else https://github.com/grimme-lab/xtb",
)
CREST = Program(
    name="crest",
    title="CREST",
    variable="SCIAGENT_CREST",
    commands=("crest",),
    question=("--version",),
    answer=r"(?:Version|crest)\s+v?(\d+\.\d[\w.]*)",
    source="https://github.com/crest-lab/crest",
)
GfnLevel = Literal["GFN2-xTB", "GFN1-xTB"]
ACCURACY = 0.01  # xtb's default, 1, converges charges to 1e-4 and dipoles to 0.001 D only
CYCLES = 250  # largest number, of the self-consistent charges
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
    gfn_number = method[3]  # 2 of GFN2-xTB
    arguments = ["molecule.xyz", "--gfn", gfn_number, *state_arguments(geometry, solvation)]
    arguments += ["--json", "--norestart", "--acc", str(ACCURACY), "--iterations", str(CYCLES)]
    if relax:
        arguments += ["--opt", "tight"]
    output = run(XTB, arguments, folder, threads=threads, files={"molecule.xyz": geometry.to_xyz()})
    return read(output, geometry, method, relax), output


def state_arguments(geometry: Geometry, solvation: Solvation | None) -> list[str]:
    """Returns the arguments of xtb and CREST for charge, unpaired electrons and solvent."""
    arguments = ["--chrg", str(geometry.charge), "--uhf", str(geometry.unpaired)]
    if solvation is not None:
        model, solvent, _ = solvation.arguments()
        # the reference state is xtb's default, which is tblite's gsolv
        arguments += [f"--{model.removesuffix('-solvation')}", solvent]
    return arguments


def read(output: ProgramOutput, asked: Geometry, method: GfnLevel, relax: bool) -> ProgramResult:
    """Returns the result in the folder. Raises SimulatorError with the reason where there is none."""
    values = _values(output)
    unpaired = int(values[UNPAIRED])
    if relax and "GEOMETRY OPTIMIZATION CONVERGED" not in output.text:
        raise failed(output, REASONS, "says nothing of a converged relaxation")
    if values["method"] != method:
        raise failure(Reason.BAD_RESULT, f"xtb computed {values['method']}; asked for {method}")
    geometry = _read_geometry(output.folder / "xtbopt.xyz", asked) if relax else asked
    occupations = np.asarray(values["fractional occupation"], dtype=float)
    if unpaired != asked.unpaired:
        raise failure(Reason.BAD_RESULT, f"{unpaired} unpaired electrons; {asked.unpaired} asked for")
    orbital_energies = np.asarray(values["orbital energies/eV"], dtype=float)
    homo, lumo = frontier(orbital_energies, occupations, asked.unpaired)
    dipole_about_origin = np.asarray(values["dipole"], dtype=float)
    dipole = dipole_about_origin - asked.charge * geometry.atoms.get_center_of_mass() / BOHR
    result = ProgramResult(
        energy=float(values["total energy"]) * HARTREE,
        homo=homo,
        lumo=lumo,
        dipole=float(np.linalg.norm(dipole)) * DEBYE,
        geometry=geometry,
    )
    return checked(result, asked, relaxed=relax)


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
    missing = [name for name in needed if name not in values]
    if missing:
        raise failed(output, REASONS, f"its result lacks {', '.join(missing)}")
    return values


def _read_geometry(file: Path, asked: Geometry) -> Geometry:
    """Returns the geometry of an XYZ file that xtb wrote. Raises SimulatorError crashed (bad_result)."""
    rows = re.findall(r"^\s*[A-Z][a-z]?((?:\s+-?\d+\.\d+){3})\s*$", file.read_text(encoding="utf-8"), re.MULTILINE)
    if len(rows) != len(asked.numbers):
        raise failure(Reason.BAD_RESULT, f"{len(rows)} atoms in {file.name}, {len(asked.numbers)} were asked for")
    return asked.moved(np.array([row.split() for row in rows], dtype=float))


SAME_ENERGY = 1e-4 * HARTREE  # eV; CREST's SCF is tighter or looser than that of the check
MAX_CONFORMERS = 500  # of the file, lowest first, that are read
CREST_FILE = "crest_conformers.xyz"
CREST_REASONS: Reasons = {
    r"topology .{0,40}(change|mismatch)|change in topology": Reason.BOND_CHANGED,
    r"initial geometry optimization failed|initial optimization failed": Reason.GEOMETRY_NOT_CONVERGED,
    r"did not converge|scf .{0,40}fail": Reason.SCF_NOT_CONVERGED,
    r"xtb .{0,40}(not found|not present|missing)": Reason.PROGRAM_MISSING,
    r"unknown (option|argument|keyword)|invalid (option|input)|could not read": Reason.BAD_INPUT,
}
_ATOM = re.compile(r"\s*([A-Za-z]{1,2})((?:\s+-?\d+\.\d+){3})\s*$")


def crest(
    geometry: Geometry,
    folder: Path,
    window: float,
    solvation: Solvation | None = None,
    threads: int = 1,
    mode: str = "",
) -> tuple[list[Geometry], ProgramOutput]:
    """Returns the conformers that CREST found within `window` (kcal/mol), lowest first, and its output.

    mode: `quick` or `squick`, which search less, or empty. folder: a new one.
    Raises SimulatorError as `run` does, crashed (bad_result) for other atoms or energies, and for every failure that
    the output names.
    """
    check(geometry)
    arguments = ["molecule.xyz", "--gfn2", *state_arguments(geometry, solvation)]
    arguments += ["--ewin", f"{window:g}", "-T", str(threads)]
    if mode:
        arguments.append(f"--{mode}")
    output = run(CREST, arguments, folder, threads=threads, files={"molecule.xyz": geometry.to_xyz()})
    return read_ensemble(output, geometry, solvation), output


def read_ensemble(output: ProgramOutput, asked: Geometry, solvation: Solvation | None = None) -> list[Geometry]:
    """Returns the conformers in the folder. Raises SimulatorError with the reason where there are none."""
    file = output.folder / CREST_FILE
    if output.status or "CREST terminated normally" not in output.text or not file.is_file():
        raise failed(output, CREST_REASONS, f"has written no conformers ({CREST_FILE})")
    structures = _structures(file.read_text(encoding="utf-8", errors="replace"), asked)
    if not structures:
        raise failed(output, CREST_REASONS, f"{CREST_FILE} is empty")
    geometries = [geometry for geometry, _ in structures]
    crest_energies = np.array([energy for _, energy in structures])
    differences = np.abs(energies(geometries, solvation) - crest_energies)
    differences = differences[np.isfinite(differences)]  # tblite may have failed for some
    largest = float(differences.max(initial=0.0))
    if largest > SAME_ENERGY:
        detail = f"CREST's energies and those of GFN2-xTB by tblite differ by up to {largest / HARTREE:.1e} hartree"
        raise failure(Reason.BAD_RESULT, detail)
    return geometries


def _structures(text: str, asked: Geometry) -> list[tuple[Geometry, float]]:
    """Returns the structures of an XYZ file with several, each with the energy in its comment line, eV.

    A structure has a line with the number of atoms, the comment line, and a line for each atom. Structures beyond
    MAX_CONFORMERS are not read. Raises SimulatorError crashed (bad_result)."""
    from ase.data import atomic_numbers

    lines = text.splitlines()
    structures: list[tuple[Geometry, float]] = []
    n = len(asked.numbers)
    lines_per_structure = n + 2
    for first in range(0, len(lines), lines_per_structure)[:MAX_CONFORMERS]:
        atom_lines = lines[first + 2 : first + lines_per_structure]
        atoms = [match for match in map(_ATOM.match, atom_lines) if match]
        numbers = tuple(atomic_numbers.get(atom[1].capitalize()) for atom in atoms)
        if lines[first].strip() != str(n) or numbers != asked.numbers:
            raise failure(Reason.BAD_RESULT, f"{CREST_FILE}, line {first + 1}: not the {n} atoms that were asked for")
        energy = re.search(r"-?\d+\.\d+", lines[first + 1])
        if energy is None:
            raise failure(Reason.BAD_RESULT, f"{CREST_FILE}, line {first + 2}: no energy")
        positions = np.array([atom[2].split() for atom in atoms], dtype=float)
        structures.append((asked.moved(positions), float(energy[0]) * HARTREE))
    return structures
