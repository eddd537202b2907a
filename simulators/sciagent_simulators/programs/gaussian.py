"""Gaussian 16 and 09: input and output of single points and relaxations.

Gaussian's dipole is about the origin of the standard orientation, the centre of nuclear charge. The dipole of an ion is
moved to the centre of mass.

Sources: https://gaussian.com/keywords; Frisch et al., Gaussian 16, Gaussian, Inc., Wallingford CT (2016).
"""

from __future__ import annotations

import re
from itertools import chain

import numpy as np

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.programs import Program
from sciagent_simulators.geometry_and_its_checks import Geometry, failure
from sciagent_simulators.programs.program_scf import (
    Machine,
    ProgramMethod,
    ProgramResult,
    ScfProgram,
    coordinates,
    scf_facts,
)
from sciagent_simulators.programs.run_program_and_name_failure import Reasons
from sciagent_simulators.tblite_engine import BOHR, DEBYE, HARTREE

GAUSSIAN = Program(
    name="gaussian",
    title="Gaussian",
    variable="SCIAGENT_GAUSSIAN",
    commands=("g16", "g09"),
    question=(),  # none is needed, since every output states the version
    answer=r"Gaussian (\d\d), Revision ([A-Z]\.\d\d)",
    source="https://gaussian.com; g16 needs its own environment (g16root, GAUSS_EXEDIR)",
    scratch_variable="GAUSS_SCRDIR",
)
GAUSSIAN_NAMES = {"PBE0": "PBE1PBE", "PBE": "PBEPBE", "TPSS": "TPSSTPSS", "M06-2X": "M062X"}
"""{functional: Gaussian's name}, where the names differ."""
UNSUPPORTED_METHODS = ("r2scan", "wb97x-d3", "wb97m", "wb97x-v", "-3c", "b97m-v", "dlpno")
"""Parts of the names of methods that Gaussian 16 does not have, in small letters."""
UNSUPPORTED_BASES = ("def2-svpd", "def2-tzvpd", "def2-tzvppd")
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
"""{solvent: Gaussian's name}, where the names differ."""
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
_ENERGY = re.compile(r"SCF Done: +E\((\S+)\) = +(\S+) +A\.U\. after +(\d+) cycles")
_ORIENTATION = re.compile(r"(Standard|Input) orientation:.*?\n -+\n.*?-+\n(.*?)\n -+\n", re.DOTALL)


def input_text(geometry: Geometry, method: ProgramMethod, machine: Machine) -> str:
    """Returns Gaussian's input. Gaussian keeps to %mem for its arrays; the program itself needs a few hundred MB."""
    theory = GAUSSIAN_NAMES.get(method.functional, method.functional)
    if method.basis:
        theory += f"/{re.sub('^def2-', 'def2', method.basis)}"
    words = [theory, f"SCF=(Tight,MaxCycle={method.max_cycles})", "Integral=UltraFine"]
    if method.dispersion:
        words.append("EmpiricalDispersion=GD3BJ")
    if method.relax:
        words.append(f"Opt=(MaxCycles={method.max_steps})")
    if method.solvent:
        model = {"SMD": "SMD", "C-PCM": "CPCM"}[method.solvent_model]
        words.append(f"SCRF=({model},Solvent={SOLVENTS.get(method.solvent, method.solvent)})")
    lines = [f"%nprocshared={machine.threads}", f"%mem={machine.memory(share=0.7)}MB", f"#P {' '.join(words)}"]
    lines += method.keywords
    title = "sciagent"
    lines += ["", title, "", f"{geometry.charge} {geometry.multiplicity}"]
    return "\n".join([*lines, *coordinates(geometry), "", ""])


def result(text: str) -> ProgramResult | None:
    """Returns the values in Gaussian's output; None if one is missing."""
    energies = _ENERGY.findall(text)
    state = re.search(r"Charge = +(-?\d+) Multiplicity = +(\d+)", text)
    dipoles = re.findall(r"Dipole moment .*?Debye\):\s+X= +(\S+) +Y= +(\S+) +Z= +(\S+)", text)
    occupied_levels = _orbitals(text, "occ.")
    empty_levels = _orbitals(text, "virt.")
    if not (energies and state and dipoles and occupied_levels) or "Convergence criterion not met" in text:
        return None
    _, last_energy, last_cycles = energies[-1]
    geometry = _geometry(text, charge=int(state[1]), multiplicity=int(state[2]))
    shift = 0.0  # debye; change of the dipole of an ion from the origin to the centre of mass
    if geometry.numbers:
        shift = geometry.charge * geometry.atoms.get_center_of_mass() / BOHR * DEBYE
    dipole = float(np.linalg.norm(np.array(dipoles[-1], dtype=float) - shift))
    spins = re.findall(r"S\*\*2 before annihilation +(\S+),", text)
    s_squared = float(spins[-1]) if spins else None
    facts = {**scf_facts(n_energies=len(energies), s_squared=s_squared), "scf_cycles": int(last_cycles)}
    return ProgramResult(
        energy=_number(last_energy) * HARTREE,
        homo=max(occupied_levels),
        lumo=min(empty_levels, default=None),
        dipole=dipole,
        geometry=geometry,
        diagnostics=facts,
    )


def _number(text: str) -> float:
    """Returns a number as Fortran prints it, such as -0.76D+02.

    Raises SimulatorError implausible (not_finite) for stars, which Fortran prints for a number that does not fit."""
    try:
        return float(text.replace("D", "E"))
    except ValueError:
        raise failure(Reason.NOT_FINITE, f'Gaussian printed "{text[:30]}" for a number') from None


def _geometry(text: str, charge: int, multiplicity: int) -> Geometry:
    """Returns the last geometry in the standard orientation, else the last one in the orientation of the input.

    It has no atoms if the output has no geometry."""
    tables = _ORIENTATION.findall(text)
    standard_tables = [rows for kind, rows in tables if kind == "Standard"]
    all_tables = [rows for _, rows in tables]
    table = (standard_tables or all_tables or [""])[-1]
    rows = re.findall(r"^ +\d+ +(\d+) +\d+ +(\S+) +(\S+) +(\S+) *$", table, re.MULTILINE)
    positions = np.array([[_number(x) for x in row[1:]] for row in rows], dtype=float).reshape(-1, 3)
    return Geometry(tuple(int(row[0]) for row in rows), positions, charge, multiplicity)


def _orbitals(text: str, what: str) -> list[float]:
    """Returns orbital energies of the last population analysis, in eV, of both spins. what: `occ.` or `virt.`."""
    last = text.rpartition("Population analysis using the SCF")[2]
    lines = re.findall(rf"(?:Alpha|Beta) +{re.escape(what)} eigenvalues -- *(.*)", last)
    # numbers have ten columns and may touch each other
    numbers = chain.from_iterable(re.findall(r"-?\d+\.\d{5}|\*+", line) for line in lines)
    return [_number(number) * HARTREE for number in numbers]


GAUSSIAN_SCF = ScfProgram(
    program=GAUSSIAN,
    file="molecule.gjf",
    input_text=input_text,
    result=result,
    reasons=REASONS,
    normal="Normal termination of Gaussian",
    relaxed="Stationary point found",
    # energies of Moller-Plesset, coupled-cluster and excited-state methods
    beyond=r"EUMP2 =|^ E2\(.*\) = |CCSD\(?T?\)?= |Total Energy, E\(",
    reads_stdin=True,
)
