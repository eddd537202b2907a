"""Kohn-Sham single points of molecules by PySCF: the method, recovery of convergence, and tests of the result.

PySCF returns an energy without convergence, computes I2 with 106 electrons if no effective core potential is passed,
and converges overlapping atoms to +50 hartree. This module raises an error with a reason in each of these cases.

Energies are in eV, dipoles in debye, lengths in angstrom; hartree is used only where a name or docstring says so.

Sources: PySCF: Sun et al., J. Chem. Phys. 153, 024109 (2020). def2: Weigend, Ahlrichs, PCCP 7, 3297 (2005).

Composite methods: r2SCAN-3c is r2SCAN in def2-mTZVPP with D4 (its own charge scaling: 2 and 1) and the geometric
counterpoise correction. wB97X-3c is wB97X-V without VV10 in vDZP, which has core potentials from boron on, with D4.
PySCF 2.14 knows neither by name, and its D4 has no charge scaling of r2SCAN-3c. The parts: r2SCAN and wB97X-V by libxc,
def2-mTZVPP by PySCF, vDZP from the Basis Set Exchange (in `basis_sets`), D4 and gCP by pyscf-dispersion.

Sources: r2SCAN-3c: Grimme, Hansen, Ehlert, Mewes, J. Chem. Phys. 154, 064103 (2021). wB97X-3c: Mueller, Hansen, Grimme,
J. Chem. Phys. 158, 014103 (2023). VV10: Vydrov, Van Voorhis, J. Chem. Phys. 133, 244103 (2010). wB97X-V: Mardirossian,
Head-Gordon, PCCP 16, 9904 (2014); wB97M-V: J. Chem. Phys. 144, 214110 (2016). Basis Set Exchange: Pritchard et al.,
J. Chem. Inf. Model. 59, 4814 (2019).

Is the closed-shell singlet the ground state? A cheap screen decides, then two calculations in doubtful cases. The
screen is the lowest triplet excitation in the Tamm-Dancoff approximation on a coarse grid. Lowest triplets at
PBE0/def2-SVP: benzene 4.22 eV, naphthoquinone 2.26 (both stable), rectangular cyclobutadiene 1.04, nitrosobenzene 0.37
(both have a broken-symmetry solution 0.016 eV lower). Above SAFE_TRIPLET the restricted solution is taken as stable.
Below it two calculations decide: the triplet, and the broken-symmetry singlet from mixed frontier orbitals. PySCF's
`stability()` gives the same answer at 13 times the cost of the SCF (benzene, 80 s); the screen costs about one SCF.

Does one determinant describe the state? A two-determinant model of frontier orbital pairs answers. In PBE0 the
restricted solution of ozone is stable and its triplet lies 1.2 eV higher, yet 0.3 electrons belong in an orbital that
this solution leaves empty. For an occupied orbital i and an empty orbital a, two determinants put both electrons into
i or into a. They couple by the exchange integral K = (ia|ia). Their energies differ by

    D = 2 (f_aa - f_ii) + (ii|ii) + (aa|aa) - 4 (ii|aa) + 2 K

where f is the Fock operator of the closed shell. The lower root puts n = 2 c^2 / (1 + c^2) electrons into a, with
c = (sqrt(D^2 + 4 K^2) - D) / 2K. The test uses the largest n over the frontier, which does not grow with the molecule.

PBE0/def2-SVP: ozone 0.30 (0.26 on its GFN2-xTB geometry), F2 0.12, carbonyl oxide 0.11, rectangular cyclobutadiene and
nitromethane 0.10, ethylene, diazomethane and SO2 0.08, benzoquinone 0.06, azulene 0.05, nitrobenzene, anthracene 0.04,
benzene, naphthoquinone, N2 0.03. More than 0.1 of the related M diagnostic in CASSCF is strongly multireference. The
limit here is higher, since the model has only two determinants and does not relax the orbitals.

Sources: Bauernschmitt, Ahlrichs, J. Chem. Phys. 104, 9047 (1996); Hirata, Head-Gordon, Chem. Phys. Lett. 314,
291 (1999); M diagnostic: Tishchenko, Zheng, Truhlar, J. Chem. Theory Comput. 4, 1208 (2008).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.geometry_and_its_checks import Geometry, check, failure
from sciagent_simulators.pyscf_excitations import run_lowest, transition
from sciagent_simulators.scf_recovery import converge
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import in_solvent
from sciagent_simulators.tblite_engine import BOHR, DEBYE, HARTREE

Array = NDArray[np.float64]

VV10_COARSER = 3  # levels by which the grid of VV10 is coarser, since its cost grows with the square of the points
CORRECTIONS_STEP = 1e-4  # bohr; displacement of an atom in the Hessian of the corrections
VDZP = "vdzp"
_VDZP_FILE = Path(__file__).parent / "basis_sets" / "vdzp.nwchem"
_AUXILIARY_BASES = {VDZP: "def2-universal-jkfit"}
"""{basis set: auxiliary basis set for density fitting}, where PySCF has no default."""
_CORE_POTENTIAL_BASES = {"def2-mtzvpp": "def2-tzvpp"}
"""{basis set: the basis set whose core potentials it uses}, where PySCF has none under its own name."""


@dataclass(frozen=True)
class Composite:
    """A composite method."""

    functional: str
    """Name of the functional in PySCF's spelling."""
    basis: str
    """Name of its basis set in PySCF's spelling, or `vdzp`."""
    dispersion: str | None
    """PySCF's name of the dispersion correction; None where `corrections` has it."""


COMPOSITES = {
    "r2scan-3c": Composite(functional="r2scan", basis="def2-mtzvpp", dispersion=None),
    "wb97x-3c": Composite(functional="wb97x-v", basis=VDZP, dispersion="d4:wb97x-3c"),
}
"""The composite methods by the lower-case name that is the `functional` of their settings."""


def auxiliary_basis(basis: str) -> str | None:
    """Returns the auxiliary basis set for density fitting; None for PySCF's default."""
    return _AUXILIARY_BASES.get(basis)


def basis_and_potentials(basis: str, symbols: list[str], heavy: list[str]) -> tuple[Any, Mapping[str, Any]]:
    """Returns PySCF's arguments `basis` and `ecp` for a molecule of the elements `symbols`.

    heavy: the elements among them that have a core potential in def2.
    Raises pyscf.lib.exceptions.BasisNotFoundError for an element that vDZP lacks.
    """
    if basis != VDZP:
        return basis, dict.fromkeys(heavy, _CORE_POTENTIAL_BASES.get(basis, basis))
    functions: dict[str, Any] = {}
    core_potentials: dict[str, Any] = {}
    for symbol in symbols:
        functions[symbol], core_potential = _vdzp(symbol)
        if core_potential:
            core_potentials[symbol] = core_potential
    return functions, core_potentials


@cache
def _vdzp(symbol: str) -> tuple[Any, Any]:
    """Returns an element's basis functions and its core potential; None for an element without core potential."""
    from pyscf.gto.basis import parse_nwchem, parse_nwchem_ecp

    functions, _, potentials = _VDZP_FILE.read_text(encoding="utf-8").partition("\nECP\n")
    core_potential = None
    if f"\n{symbol} nelec" in f"\n{potentials}":
        core_potential = parse_nwchem_ecp.parse(potentials, symbol)
    return parse_nwchem.parse(functions, symbol), core_potential


def set_method(mf: Any, settings: DftSettings) -> None:
    """Sets functional and dispersion of a Kohn-Sham object, and the corrections of a composite method."""
    composite = COMPOSITES.get(settings.functional)
    mf.nlcgrids.level = max(0, settings.grid_level - VV10_COARSER)
    if composite is None:
        mf.xc = settings.functional
        mf.disp = settings.dispersion
        return
    mf.xc = composite.functional
    mf.disp = composite.dispersion
    mf.nlc = False
    if composite.dispersion is None:  # PySCF asks these two functions for the dispersion energy
        mol = mf.mol
        mf.do_disp = lambda disp=None: True
        mf.get_dispersion = lambda *_, **__: corrections(mol)[0]  # the energy


def gradient(mf: Any, settings: DftSettings) -> Any:
    """Returns the object that computes the gradient of a mean field, with the corrections of a composite method."""
    gradient_method = mf.nuc_grad_method()
    gradient_method.verbose = 0
    if _is_corrected(settings):
        gradient_method.get_dispersion = lambda *_, **__: corrections(mf.mol)[1]  # the gradient
    return gradient_method


def hessian(mf: Any, settings: DftSettings) -> Any:
    """Returns the object that computes the Hessian of a mean field, with the corrections of a composite method."""
    hessian_method = mf.Hessian()
    hessian_method.verbose = 0
    if _is_corrected(settings):
        hessian_method.get_dispersion = lambda *_, **__: _corrections_hessian(mf.mol)
    return hessian_method


def _is_corrected(settings: DftSettings) -> bool:
    """Returns whether the energy contains `corrections`, which PySCF does not compute itself."""
    composite = COMPOSITES.get(settings.functional)
    return composite is not None and composite.dispersion is None


def corrections(mol: Any) -> tuple[float, Array]:
    """Returns the D4 and counterpoise corrections of r2SCAN-3c summed, hartree, and the gradient of the sum.

    The gradient is n x 3, hartree/bohr.
    """
    from pyscf.dispersion.dftd4 import DFTD4Dispersion
    from pyscf.dispersion.gcp import GCP

    dispersion = DFTD4Dispersion(mol, xc="r2scan-3c", ga=2.0, gc=1.0).get_dispersion(grad=True)
    counterpoise = GCP(mol, method="r2scan3c").get_counterpoise(grad=True)
    energy = float(dispersion["energy"]) + float(counterpoise["energy"])
    return energy, np.sum([dispersion["gradient"], counterpoise["gradient"]], axis=0)


def _corrections_hessian(mol: Any) -> Array:
    """Returns the Hessian of the corrections, n x n x 3 x 3, hartree/bohr^2, by central differences."""
    moved = mol.copy()
    start = np.asarray(mol.atom_coords())
    result = np.zeros((mol.natm, mol.natm, 3, 3))
    for atom, axis in np.ndindex(start.shape):
        gradients = []
        for sign in (1, -1):
            positions = start.copy()
            positions[atom, axis] += sign * CORRECTIONS_STEP
            moved.set_geom_(positions, unit="bohr")
            _, gradient_here = corrections(moved)
            gradients.append(gradient_here)
        forward, backward = gradients
        result[atom, :, axis, :] = (forward - backward) / (2 * CORRECTIONS_STEP)
    return result


# Limit of the norm of the orbital gradient, in hartree. With PySCF's default, sqrt(conv_tol), orbital energies vary by
# 5e-4 eV and dipoles by 9e-4 D with the initial guess.
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
    """Name of the basis set in PySCF's spelling, or `vdzp`. A composite method needs the basis set in COMPOSITES."""
    grid_level: int = 3
    """Level of PySCF's integration grid, 0 (coarsest) to 9."""
    conv_tol: float = 1e-8
    """Convergence of the energy, hartree."""
    max_cycles: int = 100
    """Largest number of cycles of each attempt at the self-consistent field."""
    dispersion: str | None = None
    """`d3bj`, `d4` (both need pyscf-dispersion) or None."""
    solvent: str | None = None
    """One of PYSCF_SOLVENTS in `solvent_tables_and_faster_pyscf_solvents`, or None for the gas phase."""
    solvent_model: str = "SMD"
    """One of `SolventModel` in `solvent_tables_and_faster_pyscf_solvents`; it has no effect in the gas phase."""
    spin_check: Literal["auto", "always", "off"] = "auto"
    """When the two calculations of `check_spin` test a singlet. `auto`: only if the cheap screen leaves a doubt."""


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
        """LUMO minus HOMO, eV; None without a LUMO."""
        return None if self.lumo is None else self.lumo - self.homo


def single_point(
    geometry: Geometry, settings: DftSettings, checkpoint: Path | None = None, threads: int = 1
) -> DftResult:
    """Returns the result of a self-consistent field that has passed every check.

    Arguments and errors are those of `ground_state`; a further error is unstable (anion_unbound).
    """
    _, result = ground_state(geometry, settings, checkpoint, threads)
    if geometry.charge < 0 and result.homo > 0:
        hint = ""
        if not settings.basis.endswith("d"):  # def2-SVPD and others with diffuse functions end so
            hint = f"; {settings.basis} has no diffuse functions, which anions need"
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

    check(geometry)
    with lib.with_omp_threads(threads):
        mol = build(geometry, settings)
        mf, diagnostics = converge(mean_field(mol, settings), settings.max_cycles, checkpoint)
        diagnostics["basis_functions"] = int(mol.nao)
        diagnostics["electrons"] = int(mol.nelectron)
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

    kohn_sham = dft.UKS(mol) if mol.spin else dft.RKS(mol)
    mf = kohn_sham.density_fit(auxbasis=auxiliary_basis(settings.basis))
    set_method(mf, settings)
    mf.grids.level = settings.grid_level
    mf.conv_tol = settings.conv_tol
    mf.conv_tol_grad = GRADIENT_TOLERANCE
    mf.max_cycle = settings.max_cycles
    return in_solvent(mf, settings.solvent, settings.solvent_model)


def check_energy(energy: float, mol: Any, geometry: Geometry) -> None:
    """Checks that the energy (hartree) is near the sum of the energies of the neutral atoms in the same basis.

    The energies of the atoms are spherically averaged, restricted Hartree-Fock energies. For open shells they lie above
    the true energies: by 0.6 hartree for oxygen.
    Allowed above the sum: 1 + q^2 hartree (ionisation) and 0.05 per electron (local functionals lie above
    Hartree-Fock). Allowed below it: 0.5 per atom (the strongest bond, CO, has 0.41) and 0.1 per electron (correlation
    and open shells; manganese uses 2.1 of its 3.0, the most that was seen).
    Raises SimulatorError implausible (implausible_energy).
    """
    from pyscf.scf.atom_hf import get_atm_nrhf

    atomic_results = get_atm_nrhf(mol)
    free_atoms = sum(float(atomic_results[symbol][0]) for symbol in geometry.atoms.symbols)  # [0]: the energy
    low = free_atoms - 0.5 * len(geometry.numbers) - 0.1 * geometry.electrons
    high = free_atoms + 1.0 + geometry.charge**2 + 0.05 * geometry.electrons
    if not (np.isfinite(energy) and energy < 0 and low <= energy <= high):
        raise failure(
            Reason.IMPLAUSIBLE_ENERGY,
            f"{energy:.3f} hartree; the free atoms have {free_atoms:.3f}, so it should lie in [{low:.3f}, {high:.3f}]",
        )


def _check_contamination(mf: Any, geometry: Geometry) -> float:
    """Returns <S^2>. Raises SimulatorError unstable (spin_contaminated)."""
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
    """Returns the values of a converged mean field in the units of `DftResult`."""
    energies = np.asarray(mf.mo_energy)
    occupations = np.asarray(mf.mo_occ)
    empty_levels = energies[occupations == 0]
    lumo = float(empty_levels.min()) * HARTREE if empty_levels.size else None
    dipole_about_origin = np.asarray(mf.dip_moment(unit="au", verbose=0))
    dipole = dipole_about_origin - geometry.charge * geometry.atoms.get_center_of_mass() / BOHR
    return DftResult(
        energy=float(mf.e_tot) * HARTREE,
        homo=float(energies[occupations > 0].max()) * HARTREE,
        lumo=lumo,
        dipole=float(np.linalg.norm(dipole)) * DEBYE,
        diagnostics=diagnostics,
    )


SAFE_TRIPLET = 1.5  # eV; above it the lowest triplet excitation proves the restricted solution stable
MIN_LOWERING = 1e-4  # hartree; a broken-symmetry solution must be lower by more than this
COMPARISON_GRID_LEVEL = 1  # level of the grid on which the energies of the solutions are compared
MAX_PAIR_OCCUPATION = 0.2  # electrons; with more in an empty orbital one determinant does not describe the state
N_OCCUPIED_FRONTIER = 6  # number of highest occupied orbitals in the frontier
N_EMPTY_FRONTIER = 24  # number of lowest empty orbitals in it; diffuse functions add many of them at low energy


def check_spin(mf: Any, settings: DftSettings) -> dict[str, Any]:
    """Returns diagnostics: the pair occupation, the screen's excitation and, if computed, both comparisons, eV.

    mf: a converged restricted mean field. Raises SimulatorError unstable (near_degenerate, triplet_ground_state,
    scf_unstable), not_converged (scf_not_converged).
    """
    n_occupied = int(np.count_nonzero(mf.mo_occ))
    if n_occupied == len(mf.mo_occ):
        return {"skipped": "no empty orbital"}
    diagnostics: dict[str, Any] = pair_occupation(mf)
    triplet_excitation = lowest_triplet(mf)
    diagnostics["triplet_tda"] = triplet_excitation
    if settings.spin_check == "auto" and triplet_excitation > SAFE_TRIPLET:
        return _checked_pair_occupation(diagnostics)
    orbitals = np.asarray(mf.mo_coeff)
    reference = _energy(mf, settings, mf.make_rdm1())
    triplet_density = _triplet_density(orbitals, n_occupied)
    triplet = _energy(mf, settings, triplet_density, spin=2, reference=reference)
    broken_density = _broken_symmetry_density(orbitals, n_occupied)
    broken = _energy(mf, settings, broken_density, spin=0, reference=reference)
    diagnostics["triplet_minus_singlet"] = (triplet - reference) * HARTREE
    diagnostics["broken_minus_restricted"] = (broken - reference) * HARTREE
    # The triplet of a singlet diradical (p-benzyne) lies below the restricted but above the broken-symmetry solution.
    if triplet < min(reference, broken):
        raise failure(
            Reason.TRIPLET_GROUND_STATE,
            f"the triplet lies {(reference - triplet) * HARTREE:.3f} eV below the singlet",
            spin_check=diagnostics,
        )
    if broken < reference - MIN_LOWERING:
        raise failure(
            Reason.SCF_UNSTABLE,
            f"a broken-symmetry solution lies {(reference - broken) * HARTREE:.3f} eV below the restricted one",
            spin_check=diagnostics,
        )
    return _checked_pair_occupation(diagnostics)


def _triplet_density(orbitals: Array, n_occupied: int) -> Array:
    """Returns alpha and beta density matrices, (2, n, n), with one electron moved from beta HOMO to alpha LUMO."""
    alpha = orbitals[:, : n_occupied + 1]
    beta = orbitals[:, : n_occupied - 1]
    return np.array([alpha @ alpha.T, beta @ beta.T])


def _broken_symmetry_density(orbitals: Array, n_occupied: int) -> Array:
    """Returns alpha and beta density matrices, (2, n, n), of a singlet without spin symmetry.

    HOMO and LUMO are mixed: rotated by +45 degrees for alpha and by -45 degrees for beta.
    """
    homo = orbitals[:, n_occupied - 1]
    lumo = orbitals[:, n_occupied]
    lower_orbitals = orbitals[:, : n_occupied - 1]
    densities = []
    for sign in (1, -1):
        mixed = (homo + sign * lumo) / np.sqrt(2)
        filled = np.column_stack([lower_orbitals, mixed])
        densities.append(filled @ filled.T)
    return np.array(densities)


def _checked_pair_occupation(diagnostics: dict[str, Any]) -> dict[str, Any]:
    """Returns the diagnostics if one determinant describes the state; a stable restricted solution can fail (ozone).

    Raises SimulatorError unstable (near_degenerate).
    """
    if diagnostics["pair_occupation"] > MAX_PAIR_OCCUPATION:
        raise failure(
            Reason.NEAR_DEGENERATE,
            f"{diagnostics['pair_occupation']:.2f} electrons would leave {diagnostics['pair']}: "
            "one determinant does not describe the state",
            spin_check=diagnostics,
        )
    return diagnostics


def pair_occupation(mf: Any) -> dict[str, Any]:
    """Returns `pair_occupation`, the largest n (0 to 2 electrons), and `pair`, its orbitals, such as HOMO-1 > LUMO.

    mf: a converged restricted mean field with density fitting. The docstring of the module has the formulas.
    """
    from pyscf import lib

    coefficients = np.asarray(mf.mo_coeff)
    n_occupied = int(np.count_nonzero(mf.mo_occ))
    occupied = coefficients[:, max(0, n_occupied - N_OCCUPIED_FRONTIER) : n_occupied]
    empty = coefficients[:, n_occupied : n_occupied + N_EMPTY_FRONTIER]
    frontier = np.column_stack([occupied, empty])
    coulomb, exchange = mf.with_df.get_jk(mf.make_rdm1())
    fock = mf.get_hcore() + coulomb - 0.5 * exchange
    if hasattr(mf, "with_solvent"):
        fock = fock + mf.with_solvent.v
    levels = np.einsum("pi,pq,qi->i", frontier, fock, frontier)  # f_ii
    blocks = []
    for packed in mf.with_df.loop():
        integrals = lib.unpack_tril(packed)
        blocks.append(np.einsum("Lpq,pi,qj->Lij", integrals, frontier, frontier, optimize=True))
    fitted = np.concatenate(blocks)
    charges = np.einsum("Lii->Li", fitted)
    direct = charges.T @ charges  # (ii|jj)
    repulsion = np.diag(direct)  # (ii|ii)
    lumo = occupied.shape[1]  # index of the first empty orbital in `frontier`
    transitions = fitted[:, :lumo, lumo:]
    coupling = np.einsum("Lia,Lia->ia", transitions, transitions)  # K
    gap = 2 * (levels[None, lumo:] - levels[:lumo, None])  # D, in four steps
    gap = gap + repulsion[:lumo, None] + repulsion[None, lumo:]
    gap = gap - 4 * direct[:lumo, lumo:]
    gap = gap + 2 * coupling
    nonzero_coupling = np.maximum(coupling, 1e-12)  # avoids a division by zero
    ratio = (np.sqrt(gap**2 + 4 * coupling**2) - gap) / (2 * nonzero_coupling)  # c
    occupation = 2 * ratio**2 / (1 + ratio**2)  # n
    largest = np.unravel_index(int(occupation.argmax()), occupation.shape)
    i = int(largest[0])
    a = int(largest[1])
    below_homo = lumo - 1 - i  # the last occupied orbital is the HOMO
    return {"pair_occupation": float(occupation[i, a]), "pair": transition(below_homo, a)}


def lowest_triplet(mf: Any) -> float:
    """Returns the lowest triplet excitation, TDA, eV; it is negative where the restricted solution is no minimum.

    The grid has level 0: within 3 meV of level 1 for benzene, nitrosobenzene and cyclobutadiene.
    """
    from pyscf import dft, tdscf

    # A triplet excitation does not change the density, so the solvent does not respond.
    in_gas_phase = mf.undo_solvent() if hasattr(mf, "with_solvent") else mf
    coarse = in_gas_phase.copy()
    coarse.chkfile = None
    coarse.grids = dft.gen_grid.Grids(mf.mol)
    coarse.grids.level = 0
    excitation = tdscf.TDA(coarse)
    excitation.singlet = False
    excitation.nstates = 1
    excitation.conv_tol = 1e-3
    excitation.positive_eig_threshold = -np.inf  # keeps negative roots, which show the instability
    excitation.verbose = 0
    run_lowest(excitation)
    if not np.all(excitation.converged):
        return 0.0  # below SAFE_TRIPLET, so that the two calculations decide
    return float(np.min(excitation.e)) * HARTREE


def _energy(mf: Any, settings: DftSettings, density: Any, spin: int = 0, reference: float | None = None) -> float:
    """Returns the energy, hartree, of the solution that starts from `density`, on the grid of the comparison.

    spin: unpaired electrons. reference: the restricted energy; without it the calculation is restricted.
    Raises SimulatorError not_converged (scf_not_converged).
    """
    from pyscf import dft

    mol = mf.mol.copy()
    mol.spin = spin
    mol.build(dump_input=False, parse_arg=False)
    kohn_sham = dft.RKS(mol) if reference is None else dft.UKS(mol)
    solver = kohn_sham.density_fit()
    solver.with_df = mf.with_df
    set_method(solver, settings)
    solver.grids.level = COMPARISON_GRID_LEVEL
    solver.conv_tol = 1e-6
    solver.max_cycle = settings.max_cycles
    solver = in_solvent(solver, settings.solvent, settings.solvent_model)
    for is_second_order in (False, True):
        if is_second_order:
            density = solver.make_rdm1()
            solver = solver.newton()
        solver.chkfile = None
        solver.kernel(dm0=density)
        # An unconverged energy below the reference decides too, since the converged energy is even lower.
        is_below_reference = reference is not None and solver.e_tot < reference - MIN_LOWERING
        if solver.converged or is_below_reference:
            return float(solver.e_tot)
    raise failure(Reason.SCF_NOT_CONVERGED, "a calculation of the spin check did not converge")
