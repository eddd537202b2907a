"""Run the comparison: `python -m benchmarks.proposers.run --smiles zinc250k.csv.gz` from the root of the repository.

Each finished run is written at once to `results/<search>.json`; what is there already is not run again, so the
benchmark may be stopped and taken up. `--only` runs one of the two searches; afterwards
`python -m benchmarks.proposers.report` draws the curves and prints the table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.proposers.objectives import REPORTED, objective
from benchmarks.proposers.oracle import BudgetSpentError, Oracle, auc, start_set
from sciagent.agent.proposers.evolve import GeneticSearch
from sciagent.chemistry.subjects.molecule_edits import MoleculeEdits

HERE = Path(__file__).resolve().parent
PEER = "mol-ga==0.2.1"
BATCH = 5  # children asked for at a time, as the peer's generations
SEARCHES = ("evolve", "mol_ga")


def run_evolve(name: str, seed: int, budget: int, start: list[str]) -> dict[str, Any]:
    """The search that the proposer `evolve` runs, on the benchmark's oracle."""
    oracle = Oracle(objective(name), budget)
    rng = random.Random(seed)
    begun = time.monotonic()
    search = GeneticSearch(MoleculeEdits(), known=oracle.known)
    try:
        for smiles in start:
            search.tell(smiles, (oracle.score(smiles),))
        while children := search.ask(BATCH, rng):
            for child in children:
                search.tell(child.text, (oracle.score(child.text),), child.operation)
    except BudgetSpentError:
        pass
    return {"curve": oracle.curve, "best": oracle.best(3), "calls": oracle.calls, "seconds": time.monotonic() - begun}


def run_peer(python: Path, name: str, seed: int, budget: int, start: list[str]) -> dict[str, Any]:
    """mol_ga in a process of its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "start.smi"
        file.write_text("\n".join(start), encoding="utf-8")
        command = [str(python), str(HERE / "peer_mol_ga.py"), name, str(seed), str(budget), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    if done.returncode:
        raise RuntimeError(f"mol_ga ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def peer_python(folder: Path) -> Path:
    """The interpreter of the peer's environment, made on first use with the RDKit of this one."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", PEER, f"rdkit=={version('rdkit')}"], check=True)
    return python


def _environment() -> dict[str, str]:
    """One thread, and one order of mol_ga's sets: the same run every time."""
    return dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONHASHSEED="0")


def read(file: Path) -> list[dict[str, Any]]:
    return list(json.loads(file.read_text(encoding="utf-8"))["runs"]) if file.exists() else []


def write(file: Path, search: str, runs: list[dict[str, Any]]) -> None:
    """Whole or not at all: a run that is cut short leaves the file as it was."""
    about = {
        "search": search if search == "evolve" else PEER,
        "rdkit": version("rdkit"),
        "python": platform.python_version(),
    }
    text = json.dumps({"about": about, "runs": runs}, indent=1)
    part = file.with_suffix(".part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(file)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.proposers.run", description=__doc__)
    parser.add_argument(
        "--smiles", type=Path, required=True, help="list that start sets are drawn from: .csv or .smi, .gz"
    )
    parser.add_argument("--objectives", default=",".join(REPORTED), help="names, separated by commas")
    parser.add_argument("--seeds", default="0,1,2", help="numbers, separated by commas")
    parser.add_argument("--budget", type=int, default=10_000, help="oracle calls of a run")
    parser.add_argument("--start", type=int, default=1000, help="molecules of the start set")
    parser.add_argument("--only", choices=SEARCHES, help="run one of the two")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder")
    parser.add_argument(
        "--peer", type=Path, default=HERE / ".peer", help="environment of mol_ga, made if it is not there"
    )
    given = parser.parse_args(arguments)
    given.results.mkdir(parents=True, exist_ok=True)
    for search in [given.only] if given.only else SEARCHES:
        file = given.results / f"{search}.json"
        runs = read(file)
        for seed in map(int, given.seeds.split(",")):
            start = start_set(given.smiles, seed, given.start)
            for name in given.objectives.split(","):
                what = {"objective": name, "seed": seed, "budget": given.budget, "start": given.start}
                if any(what.items() <= run.items() for run in runs):
                    continue
                if search == "evolve":
                    found = run_evolve(name, seed, given.budget, start)
                else:
                    found = run_peer(peer_python(given.peer), name, seed, given.budget, start)
                curve = [round(value, 5) for value in found["curve"]]
                area = round(auc(curve, given.budget), 5)
                runs.append(what | {"auc": area} | found | {"curve": curve, "seconds": round(found["seconds"], 1)})
                write(file, search, runs)
                print(f"{search} {name} seed {seed}: {area:.4f} in {found['seconds']:.0f} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
