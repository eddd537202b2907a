"""Gaussian 16 and 09: input and output of single points and relaxations.

"Normal termination" is not believed alone: the energy of a converged SCF has to be there, a relaxation needs its
stationary point, and atoms, charge and multiplicity have to be those asked for. Gaussian's dipole is about the origin
of the standard orientation, the centre of nuclear charge; that of an ion is moved to the centre of mass.

Sources: https://gaussian.com/keywords; Frisch et al., Gaussian 16, Gaussian, Inc., Wallingford CT (2016).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from sciagent.domain.outcomes import Reason
from sciagent.programs import GAUSSIAN
from sciagent_simulators.geometry import Geometry, check, failure
from sciagent_simulators.programs.method import Machine, ProgramMethod
from sciagent_simulators.programs.result import ProgramResult, checked
from sciagent_simulators.programs.running import ProgramOutput, Reasons, failed, run
from sciagent_simulators.tblite_engine import BOHR, DEBYE, HARTREE

SPELLED = {"PBE0": "PBE1PBE", "PBE": "PBEPBE", "TPSS": "TPSSTPSS", "M06-2X": "M062X"}
"""Gaussian's names of functionals, where they differ."""
NOT_HERE = ("r2scan", "wb97x-d3", "wb97m", "wb97x-v", "-3c", "b97m-v", "dlpno")
"""Parts of the names of methods that Gaussian 16 does not have, in small letters."""
DIFFUSE = ("def2-svpd", "def2-tzvpd", "def2-tzvppd")
"""Basis sets that Gaussian 16 does not have, in small letters."""
SOLVENTS = {
    "carbon disulfide": "CarbonDiSulfide",
    "cyclohexane": "CycloHexane",
    "1,2-dichloroethane": "DiChloroEthane",
    "diethyl ether": "DiethylEther",
    "dimethyl sulfoxide": "DiMethylSulfoxide",
    "dimethylformamide": "n,n-DiMethylFormamide",
    "dioxane": "1,4-Dioxane",
    "ethyl acetate": "EthylEthanoate",
    "hexadecane": "n-Hexadecane",
    "hexane": "n-Hexane",
    "nitromethane": "NitroMethane",
    "octanol": "n-Octanol",
    "tetrahydrofuran": "TetraHydroFuran",
}
REASONS: Reasons = {
    r"number of steps exceeded|optimization stopped": Reason.GEOMETRY_NOT_CONVERGED,
    r"convergence failure -- run terminated|convergence criterion not met": Reason.SCF_NOT_CONVERGED,
    r"combination of multiplicity .* electrons is impossible": Reason.MULTIPLICITY,
    r"atomic number out of range|basis set .{0,40}not (found|available)|no basis (set|functions)": Reason.MISSING_BASIS,
    r"small interatomic distances encountered|atoms too close": Reason.OVERLAPPING_ATOMS,
    r"qperr|syntax error was detected|illegal itype|route card not found|unrecognized (keyword|atomic symbol)"
    r"|wanted (a floating point|an integer)|end of file in zsymb"
    r"|lnk1e in .{0,200}/l1\.exe": Reason.BAD_INPUT,
}
NORMAL = "Normal termination of Gaussian"
_ENERGY = re.compile(r"SCF Done: +E\((\S+)\) = +(\S+) +A\.U\. after +(\d+) cycles")
_ORIENTATION = re.compile(r"(Standard|Input) orientation:.*?\n -+\n.*?-+\n(.*?)\n -+\n", re.DOTALL)


def gaussian(
    geometry: Geometry, method: ProgramMethod, folder: Path, machine: Machine | None = None
) -> tuple[ProgramResult, ProgramOutput]:
    """Returns the result of a single point or a relaxation, and the program's output.

    folder: a new one. Raises SimulatorError as `run` and `checked` do, and for every failure that the output names.
    """
    check(geometry)
    machine = machine or Machine()
    files = {"molecule.gjf": input_text(geometry, method, machine)}
    output = run(GAUSSIAN, [], folder, machine.threads, files, stdin="molecule.gjf")
    return read(output, geometry, method.relax), output


def input_text(geometry: Geometry, method: ProgramMethod, machine: Machine) -> str:
    """Returns Gaussian's input. Gaussian keeps to %mem for its arrays; the program itself needs a few hundred MB."""
    theory = SPELLED.get(method.functional, method.functional)
    if method.basis:
        theory += f"/{re.sub('^def2-', 'def2', method.basis)}"
    words = [theory, f"SCF=(Tight,MaxCycle={method.max_cycles})", "Integral=UltraFine"]
    words += ["EmpiricalDispersion=GD3BJ"] if method.dispersion else []
    words += [f"Opt=(MaxCycles={method.max_steps})"] if method.relax else []
    if method.solvent:
        model = {"SMD": "SMD", "C-PCM": "CPCM"}[method.solvent_model]
        words.append(f"SCRF=({model},Solvent={SOLVENTS.get(method.solvent, method.solvent)})")
    lines = [f"%nprocshared={machine.threads}", f"%mem={machine.memory(0.7)}MB", f"#P {' '.join(words)}"]
    lines += [*method.keywords, "", "sciagent", "", f"{geometry.charge} {geometry.multiplicity}"]
    for symbol, place in zip(geometry.atoms.symbols, geometry.positions, strict=True):
        lines.append(f"{symbol:<2} " + " ".join(f"{x:15.8f}" for x in place))
    return "\n".join([*lines, "", ""])


def read(output: ProgramOutput, asked: Geometry, relax: bool) -> ProgramResult:
    """Returns the result in the output. Raises SimulatorError with the reason where there is none."""
    text = output.text
    energies = _ENERGY.findall(text)
    if output.status or NORMAL not in text:
        raise failed(output, REASONS, f'"{NORMAL}" is missing')
    if not energies or "Convergence criterion not met" in text:
        raise failed(output, REASONS, "it has no energy of a converged SCF")
    if relax and "Stationary point found" not in text:
        raise failed(output, REASONS, "it does not say that a stationary point was found")
    if re.search(r"EUMP2 =|^ E2\(.*\) = |CCSD\(?T?\)?= |Total Energy, E\(", text, re.MULTILINE):
        raise failure(Reason.BAD_RESULT, "the output has an energy beyond the self-consistent field, which is not read")
    state = re.search(r"Charge = +(-?\d+) Multiplicity = +(\d+)", text)
    dipoles = re.findall(r"Dipole moment .*?Debye\):\s+X= +(\S+) +Y= +(\S+) +Z= +(\S+)", text)
    homo, lumo = _frontier(text)
    if state is None or not dipoles or homo is None:
        raise failed(output, REASONS, "it lacks orbitals, dipole, charge or multiplicity")
    geometry = _geometry(text, int(state[1]), int(state[2]))
    centre = asked.charge * geometry.atoms.get_center_of_mass() / BOHR * DEBYE if geometry.numbers else 0.0
    dipole = float(np.linalg.norm(np.array(dipoles[-1], dtype=float) - centre))
    facts: dict[str, float] = {"scf_cycles": int(energies[-1][2])}
    if relax:
        facts["relax_steps"] = len(energies) - 1
    if spins := re.findall(r"S\*\*2 before annihilation +(\S+),", text):
        facts["s_squared"] = float(spins[-1])
    result = ProgramResult(_number(energies[-1][1]) * HARTREE, homo, lumo, dipole, geometry, facts)
    return checked(result, asked, relax, facts.get("s_squared"))


def _number(text: str) -> float:
    """Returns a number of Fortran, such as -0.76D+02. Stars stand for one that did not fit."""
    try:
        return float(text.replace("D", "E"))
    except ValueError:
        raise failure(Reason.NOT_FINITE, f'Gaussian printed "{text[:30]}" for a number') from None


def _geometry(text: str, charge: int, multiplicity: int) -> Geometry:
    """Returns the last geometry in the standard orientation, else in that of the input; without atoms if none."""
    tables = _ORIENTATION.findall(text)
    table = next((rows for kind, rows in reversed(tables) if kind == "Standard"), tables[-1][1] if tables else "")
    rows = re.findall(r"^ +\d+ +(\d+) +\d+ +(\S+) +(\S+) +(\S+) *$", table, re.MULTILINE)
    positions = np.array([[_number(x) for x in row[1:]] for row in rows], dtype=float).reshape(-1, 3)
    return Geometry(tuple(int(row[0]) for row in rows), positions, charge, multiplicity)


def _frontier(text: str) -> tuple[float | None, float | None]:
    """Returns HOMO and LUMO of the last population analysis, eV, over both spins."""
    last = text.rpartition("Population analysis using the SCF")[2]
    found = {}
    for what in ("occ.", "virt."):
        lines = re.findall(rf"(?:Alpha|Beta) +{re.escape(what)} eigenvalues -- *(.*)", last)
        # numbers have ten columns and may touch each other
        found[what] = [_number(number) for line in lines for number in re.findall(r"-?\d+\.\d{5}|\*+", line)]
    homo, lumo = max(found["occ."], default=None), min(found["virt."], default=None)
    return None if homo is None else homo * HARTREE, None if lumo is None else lumo * HARTREE
