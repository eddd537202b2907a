"""Kohn-Sham single points of molecules by PySCF: density fitting, recovery of convergence, and checks of the result.

PySCF returns an energy without convergence, computes I2 with 106 electrons if no effective core potential is passed,
and converges overlapping atoms to +50 hartree. This module raises an error with a reason in each of these cases.

Energies are in eV, dipoles in debye, lengths in angstrom; hartree is used only where a name or docstring says so.

Sources: PySCF: Sun et al., J. Chem. Phys. 153, 024109 (2020). def2: Weigend, Ahlrichs, PCCP 7, 3297 (2005).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sciagent.domain.outcomes import Reason
from sciagent_simulators.geometry import Geometry, check, failure
from sciagent_simulators.methods.pyscf_methods import VDZP, auxiliary, basis_and_potentials, set_method
from sciagent_simulators.scf_recovery import converge
from sciagent_simulators.solvents import in_solvent
from sciagent_simulators.tblite_engine import BOHR, DEBYE, HARTREE

# With PySCF's default, sqrt(conv_tol), orbital energies vary by 5e-4 eV and dipoles by 9e-4 D with the initial guess.
GRADIENT_TOLERANCE = 1e-5
ECP_ABOVE = 36  # the def2 basis sets have effective core potentials for elements beyond krypton
SPIN_TOLERANCE = 0.1  # largest accepted <S^2> - S(S+1)
MAX_MEMORY = 4000  # MB


@dataclass(frozen=True)
class DftSettings:
    """Settings of a Kohn-Sham calculation."""

    functional: str = "pbe0"
    """Name of the functional in PySCF's spelling, or of a composite method."""
    basis: str = "def2-svp"
    """Name of the basis set in PySCF's spelling, or `vdzp`; that of its own for a composite method."""
    grid_level: int = 3
    conv_tol: float = 1e-8
    """Convergence of the energy, hartree."""
    max_cycles: int = 100
    dispersion: str | None = None
    """`d3bj`, `d4` (both need pyscf-dispersion) or None."""
    solvent: str | None = None
    """A solvent's name in `pyscf_solvent`, or None for the gas phase."""
    solvent_model: str = "SMD"
    spin_check: Literal["auto", "always", "off"] = "auto"
    """When a singlet is tested by module `spin_check`."""


@dataclass(frozen=True)
class DftResult:
    """The result of a single point. Orbital energies are taken over both spins."""

    energy: float
    """eV; in a solvent it includes the solvent's contribution to the free energy."""
    homo: float
    """eV."""
    lumo: float | None
    """eV."""
    dipole: float
    """Norm in debye; for an ion, about its centre of mass."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """The recovery step that converged, basis functions, electrons, <S^2>, spin check."""

    @property
    def gap(self) -> float | None:
        return None if self.lumo is None else self.lumo - self.homo


def single_point(
    geometry: Geometry, settings: DftSettings, checkpoint: Path | None = None, threads: int = 1
) -> DftResult:
    """Returns the result of a self-consistent field that has passed every check.

    Arguments and errors are those of `ground_state`; a further error is unstable (anion_unbound).
    """
    _, result = ground_state(geometry, settings, checkpoint, threads)
    if geometry.charge < 0 and result.homo > 0:
        hint = "" if settings.basis.endswith("d") else f"; {settings.basis} has no diffuse functions, which anions need"
        raise failure(
            Reason.ANION_UNBOUND,
            f"the highest occupied orbital lies at {result.homo:+.2f} eV: the last electron is held by the basis{hint}",
            **result.diagnostics,
        )
    return result


def ground_state(
    geometry: Geometry, settings: DftSettings, checkpoint: Path | None = None, threads: int = 1
) -> tuple[Any, DftResult]:
    """Returns the converged mean field and its result; it does not check whether the HOMO is bound.

    checkpoint: a file that PySCF writes at each cycle and from which an interrupted calculation resumes.
    Raises SimulatorError: refused (multiplicity, missing_basis, missing_ecp), implausible (overlapping_atoms,
    implausible_energy), not_converged (scf_not_converged), unstable (spin_contaminated, scf_unstable,
    triplet_ground_state, near_degenerate).
    """
    from pyscf import lib

    from sciagent_simulators.spin_check import check_spin

    check(geometry)
    with lib.with_omp_threads(threads):
        mol = build(geometry, settings)
        mf, diagnostics = converge(mean_field(mol, settings), settings.max_cycles, checkpoint)
        diagnostics |= {"basis_functions": int(mol.nao), "electrons": int(mol.nelectron)}
        check_energy(float(mf.e_tot), mol, geometry)
        if geometry.multiplicity > 1:
            diagnostics["s_squared"] = _check_contamination(mf, geometry)
        if geometry.multiplicity == 1 and settings.spin_check != "off":
            diagnostics["spin_check"] = check_spin(mf, settings)
    return mf, _read(mf, geometry, diagnostics)


def build(geometry: Geometry, settings: DftSettings) -> Any:
    """Returns the PySCF molecule, with effective core potentials for elements beyond krypton."""
    from pyscf import gto
    from pyscf.lib.exceptions import BasisNotFoundError

    symbols = list(geometry.atoms.symbols)
    heavy = sorted({symbol for symbol, z in zip(symbols, geometry.numbers, strict=True) if z > ECP_ABOVE})
    if heavy and not settings.basis.lower().startswith(("def2", VDZP)):
        raise failure(Reason.MISSING_ECP, f"{settings.basis} comes without potentials for {heavy}")
    try:
        basis, potentials = basis_and_potentials(settings.basis, symbols, heavy)
        mol = gto.M(
            atom=list(zip(symbols, geometry.positions.tolist(), strict=True)),
            unit="angstrom",
            basis=basis,
            ecp=potentials,
            charge=geometry.charge,
            spin=geometry.unpaired,
            verbose=0,
            max_memory=MAX_MEMORY,
        )
    except BasisNotFoundError as error:
        raise failure(Reason.MISSING_BASIS, " ".join(str(error).split())) from error
    for i, z in enumerate(geometry.numbers):
        if z > ECP_ABOVE and mol.atom_nelec_core(i) == 0:
            raise failure(Reason.MISSING_ECP, f"no effective core potential for {symbols[i]}")
    return mol


def mean_field(mol: Any, settings: DftSettings) -> Any:
    """Returns a mean field with density fitting and solvent: restricted for singlets, unrestricted otherwise."""
    from pyscf import dft

    mf = (dft.UKS(mol) if mol.spin else dft.RKS(mol)).density_fit(auxbasis=auxiliary(settings.basis))
    set_method(mf, settings)
    mf.grids.level = settings.grid_level
    mf.conv_tol = settings.conv_tol
    mf.conv_tol_grad = GRADIENT_TOLERANCE
    mf.max_cycle = settings.max_cycles
    return in_solvent(mf, settings.solvent, settings.solvent_model)


def check_energy(energy: float, mol: Any, geometry: Geometry) -> None:
    """Checks that the energy (hartree) is near the sum of the energies of the neutral atoms in the same basis.

    Theirs are spherically averaged and restricted Hartree-Fock, above the true ones of open shells: by 0.6 for oxygen.
    Allowed above the sum: 1 + q^2 hartree (ionisation) and 0.05 per electron (local functionals lie above
    Hartree-Fock). Allowed below it: 0.5 per atom (the strongest bond, CO, has 0.41) and 0.1 per electron (correlation
    and open shells; manganese uses 2.1 of its 3.0, the most that was seen).
    Raises SimulatorError implausible (implausible_energy).
    """
    from pyscf.scf.atom_hf import get_atm_nrhf

    atoms = get_atm_nrhf(mol)
    free = sum(float(atoms[symbol][0]) for symbol in geometry.atoms.symbols)
    low = free - 0.5 * len(geometry.numbers) - 0.1 * geometry.electrons
    high = free + 1.0 + geometry.charge**2 + 0.05 * geometry.electrons
    if not (np.isfinite(energy) and energy < 0 and low <= energy <= high):
        raise failure(
            Reason.IMPLAUSIBLE_ENERGY,
            f"{energy:.3f} hartree; the free atoms have {free:.3f}, so it should lie in [{low:.3f}, {high:.3f}]",
        )


def _check_contamination(mf: Any, geometry: Geometry) -> float:
    s_squared = float(mf.spin_square()[0])
    spin = geometry.unpaired / 2
    if s_squared - spin * (spin + 1) > SPIN_TOLERANCE:
        raise failure(
            Reason.SPIN_CONTAMINATED,
            f"<S^2> is {s_squared:.3f}; a pure multiplicity {geometry.multiplicity} has {spin * (spin + 1):.3f}",
            s_squared=s_squared,
        )
    return s_squared


def _read(mf: Any, geometry: Geometry, diagnostics: dict[str, Any]) -> DftResult:
    energies, occupations = np.asarray(mf.mo_energy), np.asarray(mf.mo_occ)
    virtual = energies[occupations == 0]
    dipole = (
        np.asarray(mf.dip_moment(unit="au", verbose=0)) - geometry.charge * geometry.atoms.get_center_of_mass() / BOHR
    )
    return DftResult(
        energy=float(mf.e_tot) * HARTREE,
        homo=float(energies[occupations > 0].max()) * HARTREE,
        lumo=float(virtual.min()) * HARTREE if virtual.size else None,
        dipole=float(np.linalg.norm(dipole)) * DEBYE,
        diagnostics=diagnostics,
    )
