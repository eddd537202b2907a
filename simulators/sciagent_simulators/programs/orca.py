"""ORCA: input and output of single points and relaxations, versions 5 and 6.

ORCA goes on after an SCF that is only nearly converged, says so beside the energy, and ends normally. The dipole of an
ion is about the centre of mass, ORCA's default.

`B3LYP` in ORCA has another local correlation than in Gaussian and PySCF. The input asks for `B3LYP/G`, which has the
same as Gaussian and PySCF.

Sources: ORCA 6.0 manual, https://www.faccts.de/docs/orca/6.0/manual; Neese, WIREs Comput. Mol. Sci. 12, e1606 (2022).
"""

from __future__ import annotations

import re

import numpy as np

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.programs import Program
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.programs.program_scf import (
    Machine,
    ProgramMethod,
    ProgramResult,
    ScfProgram,
    coordinates,
    scf_facts,
)
from sciagent_simulators.programs.run_program_and_name_failure import Reasons
from sciagent_simulators.tblite_engine import HARTREE

ORCA = Program(
    name="orca",
    title="ORCA",
    variable="SCIAGENT_ORCA",
    commands=("orca",),
    question=("--version",),
    answer=r"Program Version\s+(\d+\.\d[\w.]*)",
    source="ORCA 5 or later, https://orcaforum.kofo.mpg.de",
)
ORCA_NAMES = {"B3LYP": "B3LYP/G", "M06-2X": "M062X", "wB97X-D3(BJ)": "wB97X-D3BJ", "BHandHLYP": "BHANDHLYP"}
"""{functional: ORCA's name}, where the names differ."""
SMD_NAMES = {
    "dimethyl sulfoxide": "dimethylsulfoxide",
    "dimethylformamide": "n,n-dimethylformamide",
    "dioxane": "1,4-dioxane",
    "ethyl acetate": "ethyl ethanoate",
    "hexadecane": "n-hexadecane",
    "hexane": "n-hexane",
    "octanol": "1-octanol",
}
"""{solvent: ORCA's name in SMD}, where the names differ."""
REASONS: Reasons = {
    r"optimization did not converge|optimization has not (yet )?converged": Reason.GEOMETRY_NOT_CONVERGED,
    r"scf not converged|wavefunction is not converged|not fully converged"
    r"|convergence failure in scf": Reason.SCF_NOT_CONVERGED,
    r"multiplicity \(\d+\) is (odd|even) and number of electrons": Reason.MULTIPLICITY,
    r"no basis (functions? )?(found|available|on atom|for)|there are no .{0,30}basis": Reason.MISSING_BASIS,
    r"distance between atoms .{0,40}too small|atoms? .{0,30}too close": Reason.OVERLAPPING_ATOMS,
    r"unrecognized or duplicated keyword|unknown identifier|invalid assignment|input error"
    r"|unrecognized symbol|unknown key|solvent .{0,40}not (found|known|available)": Reason.BAD_INPUT,
}
_ENERGY = re.compile(r"^FINAL SINGLE POINT ENERGY +(?:\(.*?\) +)?(\S+)(.*)$", re.MULTILINE)
_ATOM = r"^ +([A-Z][a-z]?) +(\S+) +(\S+) +(\S+) *$"
_ORBITAL = re.compile(r"^ +\d+ +([0-2]\.\d+) +(-?\d+\.\d+) +(-?\d+\.\d+)", re.MULTILINE)


def input_text(geometry: Geometry, method: ProgramMethod, machine: Machine) -> str:
    """Returns ORCA's input. ORCA may exceed %maxcore (MB for each core), so it gets three quarters of the limit."""
    dispersion = {None: "", "d3bj": "D3BJ", "d4": "D4"}[method.dispersion]
    words = [ORCA_NAMES.get(method.functional, method.functional), method.basis, dispersion, "TightSCF"]
    words.extend(method.keywords)
    if method.relax:
        words.append("Opt")
    lines = [
        f"! {' '.join(word for word in words if word)}",
        f"%maxcore {machine.memory(share=0.75) // machine.threads}",
        f"%scf MaxIter {method.max_cycles} end",
    ]
    if machine.threads > 1:
        lines.append(f"%pal nprocs {machine.threads} end")
    if method.relax:
        lines.append(f"%geom MaxIter {method.max_steps} end")
    if method.solvent:
        lines += _solvent(method.solvent, method.solvent_model)
    lines.append(f"* xyz {geometry.charge} {geometry.multiplicity}")
    return "\n".join([*lines, *coordinates(geometry), "*", ""])


def _solvent(solvent: str, model: str) -> list[str]:
    """Returns the lines of the input that describe the solvent."""
    if model == "SMD":
        return ["%cpcm", "  smd true", f'  SMDsolvent "{SMD_NAMES.get(solvent, solvent)}"', "end"]
    from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import constants

    permittivity, refraction = constants(solvent)
    return ["%cpcm", f"  epsilon {permittivity:g}", f"  refrac {refraction:g}", "end"]


def result(text: str) -> ProgramResult | None:
    """Returns the values in ORCA's output; None if one is missing."""
    from ase.data import atomic_numbers

    energies = _ENERGY.findall(text)
    if not energies or "SCF CONVERGED AFTER" not in text:
        return None
    last_energy, remark = energies[-1]
    if remark.strip():  # ORCA says beside the energy that the SCF is only nearly converged
        return None
    orbitals = _orbitals(text)
    homo = max((energy for occupation, energy in orbitals if occupation > 0.5), default=None)
    lumo = min((energy for occupation, energy in orbitals if occupation <= 0.5), default=None)
    charge = _last_number(r"Total Charge +Charge +\.+ +(-?\d+)", text)
    multiplicity = _last_number(r"Mult +\.+ +(\d+)", text)
    dipole = _last_number(r"Magnitude \(Debye\) +: +(\S+)", text)
    if homo is None or charge is None or multiplicity is None or dipole is None:
        return None
    _, _, from_last_table = text.rpartition("CARTESIAN COORDINATES (ANGSTROEM)")
    table, _, _ = from_last_table.partition("CARTESIAN COORDINATES (A.U.)")
    atoms = re.findall(_ATOM, table, re.MULTILINE)
    positions = np.array([row[1:] for row in atoms], dtype=float).reshape(-1, 3)
    numbers = tuple(int(atomic_numbers[symbol]) for symbol, *_ in atoms)
    geometry = Geometry(numbers, positions, int(charge), int(multiplicity))
    s_squared = _last_number(r"Expectation value of <S\*\*2> +: +(\S+)", text)
    facts = scf_facts(n_energies=len(energies), s_squared=s_squared)
    return ProgramResult(
        energy=float(last_energy) * HARTREE, homo=homo, lumo=lumo, dipole=dipole, geometry=geometry, diagnostics=facts
    )


def _orbitals(text: str) -> list[tuple[float, float]]:
    """Returns (occupation, energy in eV) of the orbitals in the last table of them, of both spins."""
    parts = re.split(r"^ORBITAL ENERGIES *$", text, flags=re.MULTILINE)
    if len(parts) < 2:
        return []
    table = re.split(r"MULLIKEN|LOEWDIN|ATOMIC CHARGES", parts[-1], maxsplit=1)[0]
    return [(float(occupation), float(energy)) for occupation, _, energy in _ORBITAL.findall(table)]


def _last_number(expression: str, text: str) -> float | None:
    """Returns the number in the last match of a regular expression; None without a match."""
    numbers = re.findall(expression, text)
    return float(numbers[-1]) if numbers else None


ORCA_SCF = ScfProgram(
    program=ORCA,
    file="molecule.inp",
    input_text=input_text,
    result=result,
    reasons=REASONS,
    normal="ORCA TERMINATED NORMALLY",
    relaxed="THE OPTIMIZATION HAS CONVERGED",
    # energies of Moller-Plesset, coupled-cluster and excited-state methods
    beyond=r"MP2 TOTAL ENERGY|^E\((CCSD|TOT|MP3)\)|TD-DFT.{0,20} EXCITED STATES",
)
