"""The script that GPAW's own Python runs: the ground state of a crystal, then its bands at that density.

It imports nothing of sciagent and runs with GPAW 22.8 and later, in one process or several of MPI. `INPUT.json` has the
keys that `request` in `gpaw_calculation.py` writes. The ground state is kept in a folder that outlives the job, so that
a later run of the same request goes on with the bands. `OUTPUT.json` has the form that `run_script` reads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FAILURES = {
    "MissingDataError": ("missing_setup", "no PAW data"),
    "KohnShamConvergenceError": ("scf_not_converged", "the density or a band did not converge"),
    "SymmetryBrokenError": ("symmetry_broken", "the positions lost the symmetry with which the calculation began"),
    "LinAlgError": ("overlapping_atoms", "the overlap matrix is singular, as for atoms that lie upon each other"),
}
"""{name of an exception: (reason, detail if the exception has no text of its own)}. Every process raises these."""
TEXTS = {"Broken symmetry": "symmetry_broken"}
"""{beginning of the text of an exception without a class of its own: reason}. GPAW 22.8 has such exceptions."""
MPI_VARIABLES = ("OMPI_", "PMI", "PRTE_")
"""Beginnings of the names of variables by which a process learns that it is one of several processes of MPI."""
RELATIVISTIC = 'type="scalar-relativistic"'  # in files of PAW data
UNKNOWN_OPTION_STATUS = 2  # exit status of GPAW's command for an unknown option
STATE_FILE = "ground.gpw"
REQUEST_FILE = "ground.json"
FAST_MIXING = {"beta": 0.6, "nmaxold": 8, "weight": 1.0}
"""Mixing of densities that is tried first, without spin: it took 13 cycles for SrTiO3, GPAW's own mixing 20."""
FEW_CYCLES = 40
"""Largest number of cycles with FAST_MIXING."""


class MissingDataError(Exception):
    """GPAW's command has not made PAW data."""


def main() -> None:
    """Reads the request, computes, and writes the answer."""
    import ase
    import gpaw
    from gpaw.mpi import world

    request = json.loads(Path("INPUT.json").read_text(encoding="utf-8"))
    answer: dict[str, Any] = {"versions": {"ase": ase.__version__, **_data_version()}, "ranks": int(world.size)}
    try:
        answer["result"] = computed(request, world)
    except Exception as error:
        reason_and_detail = named_failure(error)
        if reason_and_detail is None:
            raise
        reason, detail = reason_and_detail
        answer["failure"] = {"reason": reason, "detail": f"GPAW {gpaw.__version__}: {detail}"}
    if world.rank == 0:
        Path("OUTPUT.json").write_text(json.dumps(answer), encoding="utf-8")


def named_failure(error: Exception) -> tuple[str, str] | None:
    """Returns reason and detail of an exception of GPAW, or None if it has no reason of its own."""
    text = " ".join(str(error).split())[:300]
    names = [kind.__name__ for kind in type(error).__mro__]
    if "FileNotFoundError" in names and ("setup" in text.lower() or "dataset" in text.lower()):
        return "missing_setup", f"no PAW data for an element: {text}"
    for name, (reason, default_detail) in FAILURES.items():
        if name in names:
            return reason, text or default_detail
    for beginning, reason in TEXTS.items():
        if text.startswith(beginning):
            return reason, text
    return None


def computed(request: Mapping[str, Any], world: Any) -> Mapping[str, Any]:
    """Returns energies in eV, moments in Bohr magnetons and eigenvalues in eV. world: GPAW's communicator."""
    _make_data(request, world)
    calculator, is_restarted = _ground_state(request, world)
    electrons = float(calculator.get_number_of_electrons())
    moment = float(calculator.get_magnetic_moment()) if request["moments"] else 0.0
    result: dict[str, Any] = {
        "energy": float(calculator.get_potential_energy()),
        "electrons": electrons,
        "moment": moment,
        "fermi": float(calculator.get_fermi_level()),
        "is_restarted": is_restarted,
        "n_mesh": len(calculator.get_ibz_k_points()),
    }
    if request["path"]:
        mesh = np.asarray(calculator.get_ibz_k_points()).tolist()
        n_occupied = int((electrons + abs(moment)) / 2 + 0.5)  # of the spin with more electrons, rounded
        fixed = calculator.fixed_density(
            kpts=mesh + request["path"],
            symmetry="off",
            nbands=n_occupied + request["empty_bands"],
            convergence={"bands": n_occupied + 1, "eigenstates": request["eigenstates"]},
            maxiter=request["cycles"],
            txt="bands.txt",
        )
        result["mesh"] = _bands(fixed, first=0, end=len(mesh))
        result["path"] = _bands(fixed, first=len(mesh), end=len(mesh) + len(request["path"]))
    return result


def _make_data(request: Mapping[str, Any], world: Any) -> None:
    """Makes the PAW data that the request names in the working folder. An element takes some seconds.

    Raises MissingDataError if GPAW's command has no parameters for them or their check fails.
    """
    import gpaw

    for symbol, electrons in request["valence"].items():
        data = Path(f"{symbol}.{electrons}.{request['functional']}")
        printed = ""
        if world.rank == 0:
            printed = _dataset(symbol, electrons, request["functional"])
        world.barrier()
        if not data.is_file() or RELATIVISTIC not in data.read_text(encoding="utf-8"):
            raise MissingDataError(f"{symbol} with {electrons} valence electrons could not be made: {printed}")
        gpaw.setup_paths.insert(0, str(Path.cwd()))


def _dataset(symbol: str, electrons: int, functional: str) -> str:
    """Runs GPAW's command that makes PAW data, and returns the last line that it prints.

    GPAW 22.8 makes scalar-relativistic data with the option -s. Later versions make them by default and do not know the
    option."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(MPI_VARIABLES)}
    # -w writes the file; -e: number of valence electrons, by which the file is named (-t), too
    command = [sys.executable, "-m", "gpaw", "dataset", symbol, "-w", "-f", functional]
    command += ["-e", str(electrons), "-t", str(electrons)]
    for option in (["-s"], []):
        completed = subprocess.run([*command, *option], env=environment, capture_output=True, text=True, check=False)
        if completed.returncode != UNKNOWN_OPTION_STATUS:
            break
    printed_lines = (completed.stdout + completed.stderr).splitlines()
    return printed_lines[-1] if printed_lines else ""


def _ground_state(request: Mapping[str, Any], world: Any) -> tuple[Any, bool]:
    """Returns a calculator with the ground state, and whether it was read from the files of an earlier run."""
    from ase import Atoms
    from gpaw import GPAW

    folder = Path(request["checkpoint"])
    # the part of the request on which the ground state depends
    ground_request = {name: value for name, value in request.items() if name not in ("checkpoint", "path")}
    state = folder / STATE_FILE
    note = folder / REQUEST_FILE
    if state.is_file() and note.is_file() and json.loads(note.read_text(encoding="utf-8")) == ground_request:
        return GPAW(str(state), txt="restart.txt"), True
    atoms = Atoms(
        numbers=request["numbers"], cell=request["cell"], scaled_positions=request["positions"], pbc=request["pbc"]
    )
    if request["moments"]:
        atoms.set_initial_magnetic_moments(request["moments"])
    calculator = _converged(atoms, request)
    partial_state = folder / f"new-{STATE_FILE}"
    calculator.write(str(partial_state))
    world.barrier()
    if world.rank == 0:
        partial_state.replace(state)
        note.write_text(json.dumps(ground_request), encoding="utf-8")
    return calculator, False


def _converged(atoms: Any, request: Mapping[str, Any]) -> Any:
    """Returns a calculator with the ground state. Raises KohnShamConvergenceError."""
    from gpaw import GPAW

    options: dict[str, Any] = {
        "mode": {"name": "pw", "ecut": request["cutoff"]},
        "xc": request["functional"],
        "kpts": {"size": request["mesh"], "gamma": request["has_gamma"]},
        "occupations": {"name": "fermi-dirac", "width": request["width"]},
        "convergence": {"eigenstates": request["eigenstates"]},
        "nbands": request["bands"],
        "setups": {symbol: str(electrons) for symbol, electrons in request["valence"].items()},
    }
    attempts: list[dict[str, Any]] = [{"maxiter": request["cycles"], "txt": "gpaw.txt"}]
    if request["moments"]:
        attempts[0]["spinpol"] = True
    elif request["cycles"] > FEW_CYCLES:  # FAST_MIXING is tried first; a second attempt has a report of its own
        attempts.insert(0, {"maxiter": FEW_CYCLES, "mixer": FAST_MIXING, "txt": "gpaw.txt"})
        attempts[1]["txt"] = "gpaw-again.txt"
    for attempt in attempts:
        atoms.calc = GPAW(**options, **attempt)
        try:
            atoms.get_potential_energy()
        except Exception as error:
            if attempt is attempts[-1] or type(error).__name__ != "KohnShamConvergenceError":
                raise
        else:
            break
    return atoms.calc


def _bands(calculator: Any, first: int, end: int) -> Mapping[str, Any]:
    """Returns k-points, in units of the reciprocal vectors, and eigenvalues: spins x k-points x bands."""
    points = np.asarray(calculator.get_ibz_k_points())[first:end]
    values = [
        [np.asarray(calculator.get_eigenvalues(kpt=k, spin=s), dtype=float).tolist() for k in range(first, end)]
        for s in range(calculator.get_number_of_spins())
    ]
    return {"points": points.tolist(), "eigenvalues": values}


def _data_version() -> dict[str, str]:
    """Returns the version of the package with the PAW data, or the folder with the data where it has none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return {"data": version("gpaw-data")}
    except PackageNotFoundError:
        from gpaw import setup_paths

        for path in setup_paths:
            if Path(path).is_dir():
                return {"data": str(path)}
        return {"data": "unknown"}


if __name__ == "__main__":
    main()
