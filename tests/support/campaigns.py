"""Small real campaigns for the tests, and the command line in a process of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.support import warm

SMALL = (
    "C",
    "CC",
    "C=C",
    "C#C",
    "C=O",
    "CO",
    "O",
    "N",
    "CC#N",
    "OO",
    "CN",
    "C=N",
    "FC",
    "N#N",
    "O=C=O",
    "CF",
    "C1CC1",
    "CC=O",
    "CSC",
    "CS",
    "OC=O",
    "NC=O",
    "N=N",
    "NO",
)

LADDER = """
campaign: {name}
subject: molecule
seed: {seed}
objectives:
  - property: homo_lumo_gap
    window: [{low}, {high}]
    unit: eV
ladder:
  - rung: checks
    verifier: molecule.checks
    settings: {{descriptors: [heavy_atoms, logp]}}
  - rung: xtb
    verifier: xtb.singlepoint
    settings: {{geometry: {{conformers: 1}}}}
    gate:
      homo_lumo_gap: {{min: 1, max: 40, unit: eV}}
  - rung: dft{dft}goal: {{kind: hits}}
budget: {budget}
proposer: {proposer}
scheduler: {{kind: {scheduler}}}
workers: {workers}
"""

PBE = """
    verifier: pyscf.scf
    settings: {functional: PBE, grid: 0, spin_check: "off", geometry: {conformers: 1}}
"""
BY_GFN1 = """
    verifier: xtb.singlepoint
    settings: {method: GFN1-xTB, geometry: {conformers: 1}}
"""
# instead of the line that begins the last rung: a rung before it
GFN1 = """  - rung: gfn1
    verifier: xtb.singlepoint
    settings: {method: GFN1-xTB, geometry: {conformers: 1}}
  - rung: dft
"""


def write_campaign(
    folder: Path,
    *,
    name: str = "small",
    molecules: tuple[str, ...] = SMALL,
    scheduler: str = "exhaustive",
    evolve: bool = False,
    dft: int = 5,
    proposals: int | None = None,
    window: tuple[float, float] = (3.0, 9.0),
    seed: int = 1,
    workers: int = 1,
    gfn1: bool = False,
) -> Path:
    """A campaign file with its structures beside it: checks, GFN2 on one conformer, PBE on a coarse grid.

    gfn1: the rung dft is computed by GFN1-xTB, in a sixth of the time, where the level does not matter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(molecules) + "\n", encoding="utf-8")
    counts = f"{{rungs: {{dft: {dft}}}" + (f", proposals: {proposals}}}" if proposals else "}")
    proposer = (
        "{kind: evolve, seeds: molecules.csv, batch: 8, ahead: 6, max_heavy_atoms: 4}"
        if evolve
        else "{kind: screen, file: molecules.csv, batch: 5}"
    )
    text = LADDER.format(
        name=name,
        seed=seed,
        low=window[0],
        high=window[1],
        budget=counts,
        proposer=proposer,
        scheduler=scheduler,
        workers=workers,
        dft=BY_GFN1 if gfn1 else PBE,
    )
    path = folder / f"{name}.yaml"
    path.write_text(text.lstrip(), encoding="utf-8")
    return path


def environment(**more: str) -> dict[str, str]:
    return dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", **more)


def sciagent(*arguments: str, cwd: Path, expect: int | None = 0, timeout: float = 300, **env: str) -> Any:
    """Run the command line to its end; returns parsed JSON of stdout if it is JSON, else the finished process."""
    done = warm.run(arguments, cwd, environment(**env), timeout)
    if expect is not None:
        assert done.returncode == expect, f"exit {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
    if "--json" in arguments and done.stdout.strip():
        return json.loads(done.stdout)
    return done
