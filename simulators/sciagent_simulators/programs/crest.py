"""CREST: conformers by metadynamics and genetic crossing (iMTD-GC) in GFN2-xTB.

CREST samples the conformers. They are relaxed again and compared by module `conformers`, so that conformers, mirror
images and equivalent wells are counted as in `xtb.conformers`; CREST itself merges mirror images. The energies that
CREST wrote have to agree with those of GFN2-xTB by tblite at the same geometries, in the same solvent.

Sources: Pracht, Bohle, Grimme, Phys. Chem. Chem. Phys. 22, 7169 (2020); Pracht et al., J. Chem. Phys. 160, 114110
(2024).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from sciagent.domain.outcomes import Reason
from sciagent.programs import CREST
from sciagent_simulators.geometry import Geometry, check, failure
from sciagent_simulators.implicit_solvent import Solvation
from sciagent_simulators.programs.running import ProgramOutput, Reasons, failed, run
from sciagent_simulators.programs.xtb import state_of
from sciagent_simulators.tblite_engine import HARTREE, energies

SAME_ENERGY = 1e-4 * HARTREE  # CREST optimises with a tighter or looser SCF than the check
MOST = 500  # conformers that are read
FILE = "crest_conformers.xyz"
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

    mode: `quick`, `squick` or empty. folder: a new one. Raises SimulatorError as `run` does, crashed (bad_result) for
    other atoms or energies, and for every failure that the output names.
    """
    check(geometry)
    arguments = ["molecule.xyz", "--gfn2", *state_of(geometry, solvation)]
    arguments += ["--ewin", f"{window:g}", "-T", str(threads), *([f"--{mode}"] if mode else [])]
    output = run(CREST, arguments, folder, threads, {"molecule.xyz": geometry.to_xyz()})
    return read_ensemble(output, geometry, solvation), output


def read_ensemble(output: ProgramOutput, asked: Geometry, solvation: Solvation | None = None) -> list[Geometry]:
    """Returns the conformers in the folder. Raises SimulatorError with the reason where there are none."""
    file = output.folder / FILE
    if output.status or "CREST terminated normally" not in output.text or not file.is_file():
        raise failed(output, CREST_REASONS, f"has written no conformers ({FILE})")
    found = _structures(file.read_text(encoding="utf-8", errors="replace"), asked)
    if not found:
        raise failed(output, CREST_REASONS, f"{FILE} is empty")
    own = energies([geometry for geometry, _ in found], solvation)
    apart = np.abs(own - np.array([energy for _, energy in found]))
    if apart[np.isfinite(apart)].max(initial=0.0) > SAME_ENERGY:
        worst = float(apart[np.isfinite(apart)].max()) / HARTREE
        detail = f"CREST's energies and those of GFN2-xTB by tblite differ by up to {worst:.1e} hartree"
        raise failure(Reason.BAD_RESULT, detail)
    return [geometry for geometry, _ in found]


def _structures(text: str, asked: Geometry) -> list[tuple[Geometry, float]]:
    """Returns the structures of an XYZ file with several, and the energies of their comment lines, eV."""
    from ase.data import atomic_numbers

    lines, place = text.splitlines(), 0
    found: list[tuple[Geometry, float]] = []
    n = len(asked.numbers)
    while place < len(lines) and len(found) < MOST:
        rows = [_ATOM.match(line) for line in lines[place + 2 : place + 2 + n]]
        symbols = [row[1].capitalize() for row in rows if row]
        if lines[place].strip() != str(n) or tuple(atomic_numbers.get(symbol) for symbol in symbols) != asked.numbers:
            raise failure(Reason.BAD_RESULT, f"{FILE}, line {place + 1}: not the {n} atoms that were asked for")
        energy = re.search(r"-?\d+\.\d+", lines[place + 1])
        if energy is None:
            raise failure(Reason.BAD_RESULT, f"{FILE}, line {place + 2}: no energy")
        positions = np.array([row[2].split() for row in rows if row], dtype=float)
        found.append((asked.moved(positions), float(energy[0]) * HARTREE))
        place += n + 2
    return found
