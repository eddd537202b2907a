"""A crystal's ground state and bands by GPAW as a program: protocols, the request, and the checks of the result.

GPAW runs in a Python of its own, with the script `gpaw_script.py`. GPAW 22.8 of Debian 12 and 26.7 of PyPI gave silicon
the same energy within 1e-8 eV, and their PAW data have the same valence electrons, so versions are provenance and no
setting. benchmarks/crystals/solids.py compares more solids.

Sources: Enkovaara et al., J. Phys. Condens. Matter 22, 253202 (2010); Mortensen et al., J. Chem. Phys. 160, 092503
(2024); PBE: Perdew, Burke, Ernzerhof, Phys. Rev. Lett. 77, 3865 (1996).

`gap_of` finds the band gap from eigenvalues on a mesh and along lines by counting electrons. It uses no Fermi level and
no smearing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.programs import interpreter
from sciagent_simulators.geometry_and_its_checks import failure
from sciagent_simulators.periodic.k_points_and_elements import VALENCE, line_points, mesh_of
from sciagent_simulators.programs.foreign_script import run_script
from sciagent_simulators.programs.run_program_and_name_failure import Reasons

GPAW = interpreter(
    module="gpaw",
    title="GPAW",
    variable="SCIAGENT_GPAW",
    source="Debian and Ubuntu: apt-get install gpaw; else https://gpaw.readthedocs.io",
)
MAX_FROM_WHOLE = 0.02
"""The number of electrons of a spin differs by at most this from a whole number in an insulator."""


@dataclass(frozen=True)
class BandSet:
    """Eigenvalues at some k-points."""

    points: NDArray[np.float64]
    """(k, 3), in units of the reciprocal vectors."""
    eigenvalues: NDArray[np.float64]
    """(spins, k, bands), eV, ascending in each row."""


@dataclass(frozen=True)
class Gap:
    """The fundamental gap of a crystal: lowest empty level minus highest occupied one, at any two k-points."""

    value: float
    """eV; 0 for a metal."""
    direct: float
    """Smallest difference at one k-point, eV; 0 for a metal."""
    valence_maximum: float | None = None
    """eV on GPAW's own scale; None for a metal."""
    valence_point: tuple[float, ...] = ()
    """k-point of the highest occupied level, in units of the reciprocal vectors; empty for a metal."""
    conduction_point: tuple[float, ...] = ()
    """k-point of the lowest empty level, in the same units; empty for a metal."""
    is_on_mesh: bool = False
    """Whether both k-points are on the mesh."""

    @property
    def is_metal(self) -> bool:
        """Whether the crystal has no gap."""
        return self.valence_maximum is None


METAL = Gap(value=0.0, direct=0.0)


def gap_of(sets: Sequence[BandSet], electrons: float, moment: float) -> Gap:
    """Returns the gap over all sets of k-points, of which the first is the mesh.

    electrons: valence electrons of the cell. moment: Bohr magnetons; it decides how many bands of each spin are filled.
    A crystal whose numbers of electrons of a spin are not whole, or whose filled and empty bands overlap, is a metal.
    Raises ValueError without lines beside the mesh, since its gap may be far too large, and for too few bands.
    """
    if not any(len(bands.points) for bands in sets[1:]):
        raise ValueError("a gap needs bands along lines, not a mesh alone")
    electrons_by_spin = [(electrons + sign * moment) / 2 for sign in (1, -1)]
    if any(abs(number - round(number)) > MAX_FROM_WHOLE for number in electrons_by_spin):
        return METAL
    occupied = [round(number) for number in electrons_by_spin]
    points = np.concatenate([bands.points for bands in sets])
    highest_occupied, lowest_empty = _edges(sets, occupied)
    top = int(highest_occupied.argmax())  # index of the k-point
    bottom = int(lowest_empty.argmin())
    value = float(lowest_empty[bottom] - highest_occupied[top])
    if value <= 0:
        return METAL
    return Gap(
        value=value,
        direct=float((lowest_empty - highest_occupied).min()),
        valence_maximum=float(highest_occupied[top]),
        valence_point=tuple(float(round(x, 6)) for x in points[top]),
        conduction_point=tuple(float(round(x, 6)) for x in points[bottom]),
        is_on_mesh=max(top, bottom) < len(sets[0].points),
    )


def _edges(sets: Sequence[BandSet], occupied: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns (k,) the highest occupied and the lowest empty level of both spins at each point of all sets.

    occupied: numbers of filled bands by spin. Raises ValueError for too few bands."""
    n_points = sum(len(bands.points) for bands in sets)
    highest = np.full(n_points, -np.inf)
    lowest = np.full(n_points, np.inf)
    n_spins = len(sets[0].eigenvalues)  # 1 if the two spins have the same bands
    for spin, n_filled in enumerate(occupied[:n_spins]):
        rows = []
        for bands in sets:
            rows.extend(bands.eigenvalues[spin])
        # without k-points no band is missing
        fewest_bands = min((len(row) for row in rows), default=n_filled + 1)
        if fewest_bands <= n_filled:
            raise ValueError(f"{fewest_bands} bands for {n_filled} filled ones of a spin")
        if n_filled > 0:
            highest = np.maximum(highest, [row[n_filled - 1] for row in rows])
        lowest = np.minimum(lowest, [row[n_filled] for row in rows])
    return highest, lowest


SCRIPT = Path(__file__).with_name("gpaw_script.py")
FUNCTIONAL = "PBE"
WIDTH = 0.05  # eV, of the Fermi-Dirac distribution; energies are extrapolated to 0
EIGENSTATES = 1e-6  # eV**2 per electron, residuals of the bands; eigenvalues are then converged to below 1 meV
EMPTY_BANDS = 12  # with 4 the lowest empty band of CaSiO3 takes 30 cycles to converge, with 12 it takes 10
CYCLES = 200  # largest number of cycles of the self-consistent field
OVERLAP = 0.6  # atoms at less than this share of the sum of their covalent radii overlap
MAX_ENERGY = 2.0  # eV/atom above free atoms without spin; no crystal has a higher energy
REASONS: Reasons = {
    r"KohnShamConvergenceError": Reason.SCF_NOT_CONVERGED,
    r"FileNotFoundError.{0,200}(setup|dataset)": Reason.MISSING_SETUP,
}


@dataclass(frozen=True)
class Protocol:
    """The resolution of plane waves and k-points."""

    cutoff: float
    """Kinetic energy of the plane waves, eV."""
    mesh: float
    """k-points of the mesh per 1/angstrom of each reciprocal vector."""
    lines: float
    """k-points per 1/angstrom along the lines of the bands."""

    @property
    def basis(self) -> str:
        """The name in levels, such as `PW(500)`."""
        return f"PW({self.cutoff:g})"


PROTOCOLS: Mapping[str, Protocol] = {
    "fast": Protocol(cutoff=400, mesh=1.2, lines=4),
    "standard": Protocol(cutoff=500, mesh=2.5, lines=6),
}
"""For MgO, the hardest solid of the benchmark, 400 eV make the gap 0.2 eV too small; 500 eV have converged it."""


@dataclass(frozen=True)
class Bands:
    """The result of a calculation."""

    energy: float
    """Total energy of the cell, eV, against free atoms without spin."""
    electrons: float
    """Valence electrons of the cell."""
    moment: float
    """Magnetic moment of the cell, Bohr magnetons; 0 without spin."""
    gap: Gap | None
    """None if no bands were asked for."""
    is_restarted: bool
    """Whether the ground state came from the checkpoint."""
    n_points: tuple[int, int]
    """Numbers of k-points, of the mesh without those that symmetry makes equal, and of the lines."""
    versions: Mapping[str, str]
    """Versions of GPAW, its ASE, its PAW data, and of MPI where it was used."""
    text: str
    """GPAW's own report of the ground state; empty after a restart."""


def compute(
    atoms: Any,
    protocol: Protocol,
    folder: Path,
    checkpoint: Path,
    *,
    moments: Mapping[str, float] | None = None,
    valence: Mapping[str, int] | None = None,
    has_bands: bool = True,
    ranks: int = 1,
    cycles: int = CYCLES,
) -> Bands:
    """Returns ground state and bands of an ase.Atoms.

    folder: a new one for the program. checkpoint: an existing folder, from which the same calculation goes on. moments:
    {element: first magnetic moment of each of its atoms, Bohr magnetons}; none computes without spin. valence:
    {element: electrons} of PAW data that GPAW's generator makes first. has_bands: whether bands are computed; the total
    energy needs none. ranks: processes of MPI.
    Raises SimulatorError: refused (not_periodic, missing_setup), implausible (overlapping_atoms, implausible_energy),
    not_converged (scf_not_converged), and what `run_script` raises.
    """
    check_cell(atoms)
    mesh = mesh_of(atoms.cell, protocol.mesh)
    first_moments: list[float] = []
    if moments and any(moments.values()):
        first_moments = [float(moments.get(symbol, 0.0)) for symbol in atoms.symbols]
    made_valence = {symbol: electrons for symbol, electrons in (valence or {}).items() if symbol in atoms.symbols}
    all_valence = {**VALENCE, **made_valence}
    n_electrons = sum(all_valence.get(symbol, 0) for symbol in atoms.symbols)
    n_unpaired = sum(abs(moment) for moment in first_moments)
    n_occupied = math.ceil((n_electrons + n_unpaired) / 2)  # of the spin with more electrons
    request = {
        "numbers": [int(z) for z in atoms.numbers],
        "cell": atoms.cell.array.tolist(),
        "positions": atoms.get_scaled_positions(wrap=False).tolist(),
        "pbc": [bool(x) for x in atoms.pbc],
        "moments": first_moments,
        "valence": made_valence,
        "functional": FUNCTIONAL,
        "cutoff": protocol.cutoff,
        "mesh": list(mesh.size),
        "has_gamma": mesh.has_gamma,
        "width": WIDTH,
        "eigenstates": EIGENSTATES,
        "cycles": cycles,
        "bands": n_occupied + EMPTY_BANDS,
        "empty_bands": EMPTY_BANDS,
        "checkpoint": str(checkpoint),
        "path": line_points(atoms.cell, protocol.lines, mesh).tolist() if has_bands else [],
    }
    answer = run_script(GPAW, SCRIPT, request, folder, ranks=ranks, reasons=REASONS)
    report = answer.output.folder / "gpaw.txt"
    text = report.read_text(encoding="utf-8", errors="replace") if report.is_file() else ""
    return bands_of(answer.result, len(atoms), has_bands, answer.versions, text)


def check_cell(atoms: Any) -> None:
    """Raises SimulatorError: refused (not_periodic), implausible (not_finite, overlapping_atoms)."""
    from ase.neighborlist import natural_cutoffs, neighbor_list

    if not (np.isfinite(atoms.cell.array).all() and np.isfinite(atoms.positions).all()):
        raise failure(Reason.NOT_FINITE, "the cell or a position is NaN or infinite")
    if not atoms.pbc.all() or abs(atoms.cell.volume) < 1e-3:
        raise failure(Reason.NOT_PERIODIC, "the structure is not periodic in three dimensions")
    # "ijd": indices of both atoms of each pair, and their distance
    first, second, distances = neighbor_list("ijd", atoms, natural_cutoffs(atoms, mult=OVERLAP))
    if len(distances):
        nearest = int(distances.argmin())
        pair = f"{atoms.symbols[first[nearest]]} and {atoms.symbols[second[nearest]]}"
        raise failure(Reason.OVERLAPPING_ATOMS, f"{pair} are {distances[nearest]:.2f} angstrom apart")


def bands_of(
    result: Mapping[str, Any], n_atoms: int, has_bands: bool, versions: Mapping[str, str] | None = None, text: str = ""
) -> Bands:
    """Returns the result of the script after checks.

    Raises SimulatorError crashed (bad_result) if values are missing, implausible (not_finite, implausible_energy)."""
    try:
        energy = float(result["energy"])
        electrons = float(result["electrons"])
        moment = float(result["moment"])
        sets = []
        if has_bands:
            sets = [_band_set(result[name]) for name in ("mesh", "path") if name in result]
        is_restarted = bool(result["is_restarted"])
        n_mesh = int(result["n_mesh"])
        has_finite_values = all(math.isfinite(value) for value in (energy, electrons, moment))
        has_finite_bands = all(np.isfinite(bands.eigenvalues).all() for bands in sets)
        if not has_finite_values or not has_finite_bands:
            raise failure(Reason.NOT_FINITE, "the energy, the moment or an eigenvalue is NaN or infinite")
        gap = gap_of(sets, electrons, moment) if has_bands else None
    except (KeyError, TypeError, ValueError) as error:
        raise failure(Reason.BAD_RESULT, f"GPAW's result: {type(error).__name__}: {error}") from error
    if energy > MAX_ENERGY * n_atoms:
        detail = f"{energy / n_atoms:.2f} eV per atom above free atoms: the atoms are not where a crystal has them"
        raise failure(Reason.IMPLAUSIBLE_ENERGY, detail)
    n_lines = len(sets[1].points) if has_bands else 0
    return Bands(
        energy=energy,
        electrons=electrons,
        moment=moment,
        gap=gap,
        is_restarted=is_restarted,
        n_points=(n_mesh, n_lines),
        versions=versions or {},
        text=text,
    )


def _band_set(value: Mapping[str, Any]) -> BandSet:
    """Returns the k-points and eigenvalues that the script wrote. Raises ValueError for another shape."""
    points = np.asarray(value["points"], dtype=float).reshape(-1, 3)
    eigenvalues = np.asarray(value["eigenvalues"], dtype=float)
    if eigenvalues.ndim != 3 or eigenvalues.shape[1] != len(points):
        raise ValueError(f"eigenvalues of shape {eigenvalues.shape} for {len(points)} k-points")
    return BandSet(points, eigenvalues)
