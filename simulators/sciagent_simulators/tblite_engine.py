"""GFN2-xTB, GFN1-xTB and IPEA1-xTB by tblite: single points and relaxations, in the gas phase or in a solvent.

Energies are in eV, dipoles in debye, lengths in angstrom. tblite uses OMP_NUM_THREADS threads; set it to 1 and run
several processes instead (2 threads on busy cores were 5 times slower).

Ionisation energies and electron affinities are differences of total energies (delta SCC). IPEA1-xTB is GFN1-xTB
refitted to vertical differences, with diffuse s functions on the light main group elements. `xtb --vipea` uses it by
default and lowers both results by 4.8455 eV: 0.178069 hartree, the `ipeashift` of param_ipea-xtb.txt. This constant
brings differences of tight-binding energies to the scale of experiment. The sources of xtb have the same number for
GFN1 and GFN2 and use it under `--gfn 2 --vipea`.

Sources: GFN2: Bannwarth, Ehlert, Grimme, J. Chem. Theory Comput. 15, 1652 (2019). GFN1: Grimme, Bannwarth, Shushkov,
J. Chem. Theory Comput. 13, 1989 (2017). IPEA1: Ásgeirsson, Bauer, Grimme, Chem. Sci. 8, 4879 (2017). Shift: xtb 6.5.1,
/usr/share/xtb, and https://xtb-docs.readthedocs.io/en/latest/sp.html.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry, check, check_bonds, failure
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation, unparametrised

Method = Literal["GFN2-xTB", "GFN1-xTB", "IPEA1-xTB"]

HARTREE = 27.211386245988  # eV, CODATA 2018
BOHR = 0.529177210903  # angstrom
DEBYE = 2.541746473  # debye per e bohr
KELVIN = 3.166811563e-6  # hartree
HEAVIEST = 86  # atomic number of the last element with parameters, radon

IPEA_SHIFT = 0.178069 * HARTREE  # eV
CHARGE_CHANGE: dict[str, int] = {"cation": 1, "anion": -1}  # charge of the ion minus charge of the molecule
RELAXATION_TOLERANCE = 0.3  # eV; see `check_relaxation`
DISSOCIATED = {"cation": Reason.CATION_DISSOCIATED, "anion": Reason.ANION_DISSOCIATED}

Ion = Literal["cation", "anion"]

# Settings of tblite's calculator; the next entry is tried when the SCC does not converge.
RECOVERY: dict[str, dict[str, Any]] = {
    "default": {"max-iter": 250},
    "damped": {"max-iter": 1000, "mixer-damping": 0.1},
    "hot": {"max-iter": 1000, "mixer-damping": 0.1, "temperature": 3000.0 * KELVIN},  # followed by 300 K
}
REASONS = {
    "not converged": Reason.SCF_NOT_CONVERGED,
    "too close": Reason.OVERLAPPING_ATOMS,
    "no support for elements": Reason.ELEMENT,
}
"""The reasons of tblite's errors, by words in the message."""


@dataclass(frozen=True)
class XtbResult:
    """The result of a single point or a relaxation."""

    energy: float
    """eV; in a solvent it includes the free energy of solvation."""
    homo: float | None
    """eV; None if no orbital is occupied."""
    lumo: float | None
    """eV; None if no orbital is empty."""
    dipole: float
    """Norm in debye; for an ion, about its centre of mass."""
    fmax: float
    """The largest force on an atom, eV/angstrom."""
    steps: int = 0
    """Steps of the relaxation, 0 for a single point."""
    recovery: str = "default"
    """The key of the RECOVERY settings that converged."""

    @property
    def gap(self) -> float | None:
        return None if self.homo is None or self.lumo is None else self.lumo - self.homo


def single_point(geometry: Geometry, method: Method = "GFN2-xTB", solvation: Solvation | None = None) -> XtbResult:
    """Returns the result of an SCC calculation from a fresh guess, with the settings of RECOVERY.

    Raises SimulatorError: refused (element, multiplicity, solvent), implausible (overlapping_atoms,
    implausible_energy), not_converged (scf_not_converged).
    """
    _check(geometry, method, solvation)
    return _converge(geometry, method, solvation)


def energies(geometries: Sequence[Geometry], solvation: Solvation | None = None) -> NDArray[np.float64]:
    """Returns GFN2-xTB single-point energies, (n,), eV; infinite for a geometry that failed.

    Raises the first SimulatorError if all fail.
    """
    values = np.full(len(geometries), np.inf)
    problems: list[SimulatorError] = []
    for i, geometry in enumerate(geometries):
        try:
            values[i] = single_point(geometry, solvation=solvation).energy
        except SimulatorError as error:
            problems.append(error)
    if len(problems) == len(geometries):
        raise problems[0]
    return values


def relax(
    geometry: Geometry, fmax: float = 0.05, max_steps: int = 500, solvation: Solvation | None = None
) -> tuple[Geometry, XtbResult]:
    """Returns the geometry, relaxed in GFN2-xTB until the largest force is below fmax (eV/angstrom), and its result.

    The result is a fresh single point at the relaxed geometry. The optimiser is LBFGS.
    Raises SimulatorError as `single_point` does, and not_converged (geometry_not_converged).
    """
    from ase.calculators.calculator import CalculationFailed
    from ase.optimize import LBFGS
    from tblite.ase import TBLite

    first = single_point(geometry, solvation=solvation)
    if len(geometry.numbers) == 1:
        return geometry, first
    damping = RECOVERY[first.recovery].get("mixer-damping", 0.4)  # tblite's default
    ase_solvation = None
    if solvation is not None:
        _, solvent, state = solvation.arguments()
        ase_solvation = (solvation.model, solvent, state)
    atoms = geometry.atoms
    atoms.calc = TBLite(
        method="GFN2-xTB",
        charge=geometry.charge,
        multiplicity=geometry.multiplicity,
        verbosity=0,
        max_iterations=1000,
        mixer_damping=damping,
        solvation=ase_solvation,
    )
    optimiser = LBFGS(atoms, logfile=None)
    try:
        is_converged = bool(optimiser.run(fmax=fmax, steps=max_steps))
    except CalculationFailed as error:
        raise translated(error, f"at step {optimiser.nsteps} of the relaxation: ") from error
    relaxed_geometry = geometry.moved(atoms.positions)
    if not is_converged:
        force = float(np.linalg.norm(atoms.get_forces(), axis=1).max())
        raise failure(
            Reason.GEOMETRY_NOT_CONVERGED,
            f"largest force {force:.3f} eV/angstrom after {max_steps} steps; asked for {fmax}",
            fmax=force,
        )
    result = single_point(relaxed_geometry, solvation=solvation)
    return relaxed_geometry, replace(result, steps=int(optimiser.nsteps))


def frontier(
    energies: NDArray[np.float64], occupations: NDArray[np.float64], unpaired: int
) -> tuple[float | None, float | None]:
    """Returns HOMO and LUMO in the unit of `energies`: the highest orbital with an alpha electron, and the next one.

    energies, occupations: (n_orbitals,), ascending. tblite has one set of orbitals with summed alpha and beta
    occupations (2, 1 or 0, smeared at 300 K), so the HOMO follows from the number of electrons.
    """
    n_electrons = round(float(occupations.sum()))
    n_alpha = (n_electrons + unpaired) // 2
    homo = float(energies[n_alpha - 1]) if 0 < n_alpha <= len(energies) else None
    lumo = float(energies[n_alpha]) if n_alpha < len(energies) else None
    return homo, lumo


def ionised(geometry: Geometry, ion: Ion) -> Geometry:
    """Returns the same positions with one electron less (cation) or more (anion), at the lowest possible multiplicity.

    A closed shell becomes a doublet, a doublet a singlet, a triplet a doublet. Extended tight binding has no exchange
    between unpaired electrons, so higher multiplicities are never lower in energy here.
    """
    multiplicity = 2 if geometry.multiplicity == 1 else geometry.multiplicity - 1
    return replace(geometry, charge=geometry.charge + CHARGE_CHANGE[ion], multiplicity=multiplicity)


def ionisation_difference(
    neutral: Geometry, charged: Geometry, ion: Ion, method: Method = "IPEA1-xTB", solvation: Solvation | None = None
) -> tuple[float, str]:
    """Returns E(cation) - E or E - E(anion), minus IPEA_SHIFT, eV, and the key of the ion's RECOVERY settings.

    Equal geometries give a vertical energy. Raises SimulatorError as `single_point` does, and refused (missing_basis)
    if the valence basis is full: for the anion of helium tblite drops the extra electron without an error.
    """
    start = single_point(neutral, method, solvation=solvation)
    if ion == "anion" and neutral.multiplicity == 1 and start.lumo is None:
        raise failure(Reason.MISSING_BASIS, f"{method} has no empty orbital for another electron")
    end = single_point(charged, method, solvation=solvation)
    return CHARGE_CHANGE[ion] * (end.energy - start.energy) - IPEA_SHIFT, end.recovery


def relaxed_ion(
    charged: Geometry, ion: Ion, bonds: list[tuple[int, int]], solvation: Solvation | None = None
) -> Geometry:
    """Returns the ion relaxed in GFN2-xTB, with the bonds of the neutral molecule.

    IPEA1-xTB is not made for structures. Raises SimulatorError as `relax` does, and unstable (cation_dissociated,
    anion_dissociated) if a bond broke or formed.
    """
    geometry, _ = relax(charged, solvation=solvation)
    check_bonds(geometry, bonds, DISSOCIATED[ion], f"the {ion}, relaxed in GFN2-xTB, is another species: ")
    return geometry


def check_relaxation(ion: Ion, vertical: float, adiabatic: float) -> None:
    """Checks that the adiabatic ionisation energy is not above the vertical, or the adiabatic affinity not below.

    The relaxation is by GFN2-xTB and the energies may be by IPEA1-xTB, so a difference of RELAXATION_TOLERANCE is
    allowed. With a larger difference the two methods place the charge differently (mostly in unbound anions). Raises
    SimulatorError implausible (implausible_value).
    """
    if CHARGE_CHANGE[ion] * (adiabatic - vertical) > RELAXATION_TOLERANCE:
        raise failure(
            Reason.IMPLAUSIBLE_VALUE,
            f"the {ion} relaxed in GFN2-xTB lies {abs(adiabatic - vertical):.2f} eV above the one at the neutral's "
            f"geometry (vertical {vertical:.2f}, adiabatic {adiabatic:.2f} eV): take the vertical value alone",
            vertical=vertical,
            adiabatic=adiabatic,
        )


def _check(geometry: Geometry, method: Method, solvation: Solvation | None) -> None:
    """Raises SimulatorError for a geometry, solvent or element that the method cannot compute."""
    check(geometry)
    if solvation is not None:
        fault = unparametrised(method, solvation.model, solvation.solvent)
        if fault:
            raise failure(Reason.SOLVENT, fault)
    heaviest = max(geometry.numbers)
    if heaviest > HEAVIEST:
        raise failure(Reason.ELEMENT, f"atomic number {heaviest}; parameters end at {HEAVIEST}")


def _converge(geometry: Geometry, method: Method, solvation: Solvation | None) -> XtbResult:
    """Returns the single point by the first settings of RECOVERY that converge."""
    from tblite.exceptions import TBLiteRuntimeError
    from tblite.interface import Calculator

    problem: SimulatorError | None = None
    for name, settings in RECOVERY.items():
        try:
            calculator = Calculator(
                method,
                np.array(geometry.numbers),
                geometry.positions / BOHR,
                charge=float(geometry.charge),
                uhf=geometry.unpaired,
            )
            calculator.set("verbosity", 0)
            if solvation is not None:
                calculator.add(*solvation.arguments())
            for key, value in settings.items():
                calculator.set(key, value)
            raw = calculator.singlepoint()
            if "temperature" in settings:
                calculator.set("temperature", 300.0 * KELVIN)
                raw = calculator.singlepoint(raw)
            return _read(raw, geometry, name)
        except TBLiteRuntimeError as error:
            problem = translated(error)
            if problem.reason != Reason.SCF_NOT_CONVERGED:
                break
    assert problem is not None
    raise problem


def _read(raw: Any, geometry: Geometry, recovery: str) -> XtbResult:
    """Returns tblite's result in the units of `XtbResult`. Raises SimulatorError for an energy that is not negative."""
    values: Mapping[str, Any] = raw.dict()
    occupations = np.asarray(values["orbital-occupations"]).reshape(-1)
    orbital_energies = np.asarray(values["orbital-energies"]).reshape(-1)
    homo, lumo = frontier(orbital_energies, occupations, geometry.unpaired)
    energy = float(values["energy"]) * HARTREE
    if not np.isfinite(energy) or energy >= 0:
        raise failure(Reason.IMPLAUSIBLE_ENERGY, f"total energy {energy:.3f} eV is not negative")
    dipole_about_origin = np.asarray(values["dipole"])
    dipole = dipole_about_origin - geometry.charge * geometry.atoms.get_center_of_mass() / BOHR
    forces = np.linalg.norm(np.asarray(values["gradient"]), axis=1) * HARTREE / BOHR
    return XtbResult(
        energy=energy,
        homo=None if homo is None else homo * HARTREE,
        lumo=None if lumo is None else lumo * HARTREE,
        dipole=float(np.linalg.norm(dipole)) * DEBYE,
        fmax=float(forces.max()),
        recovery=recovery,
    )


def translated(error: Exception, where: str = "") -> SimulatorError:
    """Returns a SimulatorError for tblite's error. where: text before its message."""
    message = str(error)
    reason = Reason.EXCEPTION
    for words, named_reason in REASONS.items():
        if words in message.lower():
            reason = named_reason
            break
    return failure(reason, where + " ".join(message.split()))
