"""ORCA: input and output of single points and relaxations, versions 5 and 6.

"ORCA TERMINATED NORMALLY" is not believed: ORCA goes on after an SCF that is only nearly converged and says so beside
the energy. The energy has to be there, the last SCF and the relaxation have to be converged, and atoms, charge and
multiplicity have to be those asked for. The dipole of an ion is about the centre of mass, ORCA's default.

`B3LYP` in ORCA has another local correlation than in Gaussian and PySCF; the input asks for theirs (`B3LYP/G`).

Sources: ORCA 6.0 manual, https://www.faccts.de/docs/orca/6.0/manual; Neese, WIREs Comput. Mol. Sci. 12, e1606 (2022).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from sciagent.domain.outcomes import Reason
from sciagent.programs import ORCA
from sciagent_simulators.geometry import Geometry, check, failure
from sciagent_simulators.programs.method import Machine, ProgramMethod
from sciagent_simulators.programs.result import ProgramResult, checked
from sciagent_simulators.programs.running import ProgramOutput, Reasons, failed, run
from sciagent_simulators.tblite_engine import HARTREE

SPELLED = {"B3LYP": "B3LYP/G", "M06-2X": "M062X", "wB97X-D3(BJ)": "wB97X-D3BJ", "BHandHLYP": "BHANDHLYP"}
"""ORCA's names of functionals, where they differ."""
SMD_NAMES = {
    "dimethyl sulfoxide": "dimethylsulfoxide",
    "dimethylformamide": "n,n-dimethylformamide",
    "dioxane": "1,4-dioxane",
    "ethyl acetate": "ethyl ethanoate",
    "hexadecane": "n-hexadecane",
    "hexane": "n-hexane",
    "octanol": "1-octanol",
}
REASONS: Reasons = {
    r"optimization did not converge|optimization has not (yet )?converged": Reason.GEOMETRY_NOT_CONVERGED,
    r"scf not converged|wavefunction is not converged|not fully converged|convergence failure in scf"
    r"|this wavefunction is not converged": Reason.SCF_NOT_CONVERGED,
    r"multiplicity \(\d+\) is (odd|even) and number of electrons": Reason.MULTIPLICITY,
    r"no basis (functions? )?(found|available|on atom|for)|there are no .{0,30}basis": Reason.MISSING_BASIS,
    r"distance between atoms .{0,40}too small|atoms? .{0,30}too close": Reason.OVERLAPPING_ATOMS,
    r"unrecognized or duplicated keyword|unknown identifier|invalid assignment|input error"
    r"|unrecognized symbol|unknown key|solvent .{0,40}not (found|known|available)": Reason.BAD_INPUT,
}
NORMAL = "ORCA TERMINATED NORMALLY"
_ENERGY = re.compile(r"^FINAL SINGLE POINT ENERGY +(?:\(.*?\) +)?(\S+)(.*)$", re.MULTILINE)
_ATOM = r"^ +([A-Z][a-z]?) +(\S+) +(\S+) +(\S+) *$"
_ORBITAL = re.compile(r"^ +\d+ +([0-2]\.\d+) +(-?\d+\.\d+) +(-?\d+\.\d+)", re.MULTILINE)


def orca(
    geometry: Geometry, method: ProgramMethod, folder: Path, machine: Machine | None = None
) -> tuple[ProgramResult, ProgramOutput]:
    """Returns the result of a single point or a relaxation, and the program's output.

    folder: a new one. Raises SimulatorError as `run` and `checked` do, and for every failure that the output names.
    """
    check(geometry)
    machine = machine or Machine()
    files = {"molecule.inp": input_text(geometry, method, machine)}
    output = run(ORCA, ["molecule.inp"], folder, 1, files)
    return read(output, geometry, method.relax), output


def input_text(geometry: Geometry, method: ProgramMethod, machine: Machine) -> str:
    """Returns ORCA's input. ORCA may exceed %maxcore (MB for each core), so it gets three quarters of the limit."""
    words = [SPELLED.get(method.functional, method.functional), method.basis]
    words += [{None: "", "d3bj": "D3BJ", "d4": "D4"}[method.dispersion], "TightSCF", *method.keywords]
    words += ["Opt"] if method.relax else []
    lines = [
        f"! {' '.join(word for word in words if word)}",
        f"%maxcore {machine.memory(0.75) // machine.threads}",
        f"%scf MaxIter {method.max_cycles} end",
    ]
    if machine.threads > 1:
        lines.append(f"%pal nprocs {machine.threads} end")
    if method.relax:
        lines.append(f"%geom MaxIter {method.max_steps} end")
    if method.solvent:
        lines += _solvent(method.solvent, method.solvent_model)
    lines.append(f"* xyz {geometry.charge} {geometry.multiplicity}")
    for symbol, place in zip(geometry.atoms.symbols, geometry.positions, strict=True):
        lines.append(f"{symbol:<2} " + " ".join(f"{x:15.8f}" for x in place))
    return "\n".join([*lines, "*", ""])


def _solvent(solvent: str, model: str) -> list[str]:
    if model == "SMD":
        return ["%cpcm", "  smd true", f'  SMDsolvent "{SMD_NAMES.get(solvent, solvent)}"', "end"]
    from sciagent_simulators.pyscf_solvent import constants

    permittivity, refraction = constants(solvent)
    return ["%cpcm", f"  epsilon {permittivity:g}", f"  refrac {refraction:g}", "end"]


def read(output: ProgramOutput, asked: Geometry, relax: bool) -> ProgramResult:
    """Returns the result in the output. Raises SimulatorError with the reason where there is none."""
    text = output.text
    energies = _ENERGY.findall(text)
    if output.status or NORMAL not in text:
        raise failed(output, REASONS, f'"{NORMAL}" is missing')
    if not energies or energies[-1][1].strip() or "SCF CONVERGED AFTER" not in text:
        raise failed(output, REASONS, "it has no energy of a converged SCF")
    if relax and "THE OPTIMIZATION HAS CONVERGED" not in text:
        raise failed(output, REASONS, "it does not say that the relaxation has converged")
    if re.search(r"MP2 TOTAL ENERGY|^E\((CCSD|TOT|MP3)\)|TD-DFT.{0,20} EXCITED STATES", text, re.MULTILINE):
        raise failure(Reason.BAD_RESULT, "the output has an energy beyond the self-consistent field, which is not read")
    dipoles = re.findall(r"Magnitude \(Debye\) +: +(\S+)", text)
    charges = re.findall(r"Total Charge +Charge +\.+ +(-?\d+)", text)
    multiplicities = re.findall(r"Multiplicity +Mult +\.+ +(\d+)", text)
    homo, lumo = _frontier(text)
    if not (dipoles and charges and multiplicities) or homo is None:
        raise failed(output, REASONS, "it lacks orbitals, dipole, charge or multiplicity")
    geometry = _geometry(text, int(charges[-1]), int(multiplicities[-1]))
    spins = re.findall(r"Expectation value of <S\*\*2> +: +(\S+)", text)
    steps = len(energies) - 1 if relax else 0
    facts: dict[str, float] = {"relax_steps": steps} if relax else {}
    if spins:
        facts["s_squared"] = float(spins[-1])
    result = ProgramResult(float(energies[-1][0]) * HARTREE, homo, lumo, float(dipoles[-1]), geometry, facts)
    return checked(result, asked, relax, facts.get("s_squared"))


def _geometry(text: str, charge: int, multiplicity: int) -> Geometry:
    """Returns the last geometry that was printed; without atoms if there is none."""
    from ase.data import atomic_numbers

    block = text.rpartition("CARTESIAN COORDINATES (ANGSTROEM)")[2].partition("CARTESIAN COORDINATES (A.U.)")[0]
    rows = re.findall(_ATOM, block, re.MULTILINE)
    numbers = tuple(int(atomic_numbers[symbol]) for symbol, *_ in rows)
    return Geometry(numbers, np.array([row[1:] for row in rows], dtype=float).reshape(-1, 3), charge, multiplicity)


def _frontier(text: str) -> tuple[float | None, float | None]:
    """Returns HOMO and LUMO of the last table of orbitals, eV, over both spins."""
    table = re.split(r"^ORBITAL ENERGIES *$", text, flags=re.MULTILINE)[1:][-1:]
    table = re.split(r"MULLIKEN|LOEWDIN|ATOMIC CHARGES", "".join(table), maxsplit=1)[:1]
    orbitals = [(float(occupation), float(energy)) for occupation, _, energy in _ORBITAL.findall("".join(table))]
    filled = [energy for occupation, energy in orbitals if occupation > 0.5]
    empty = [energy for occupation, energy in orbitals if occupation <= 0.5]
    return max(filled, default=None), min(empty, default=None)
