"""Writes the campaign files of the experiment: 16 tasks to train on, 8 held-out tasks, and their molecules.

    python -m benchmarks.learning.tasks FOLDER [--model NAME] [--level training | default]

A task is a goal with molecules that are verified before the first proposal: a board of 8 for a held-out task, and for
a training task a pool, from which each group of episodes draws 8. No goal and no molecule of a held-out board is in a
training task. The level is that of xTB in the held-out tasks: the quick one of training, or the verifier's default.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sciagent.chemistry.molecule import molecule_or_none

CAMPAIGNS = Path(__file__).parents[2] / "campaigns"
SEEDS = ("quickstart_seeds.csv", "redox_anolytes_seeds.csv", "uv_absorbers_seeds.csv")
MOST_ATOMS = 12  # heavy atoms of a molecule on a board; children may have 14
BOARD = 8
WIDTH = 0.6  # eV
LIMITS = (1.5, 2.5, None)  # of the dipole, in debye
CENTRES = (1.6, 1.75, 2.05, 2.15, 2.45, 2.6, 2.7, 2.75, 3.05, 3.15, 3.2, 3.3, 3.65, 3.75, 3.85, 4.0)
HELD_OUT = ((1.9, None), (2.3, 2.5), (2.9, 1.5), (3.5, 2.5))
POOL = "pool.csv"
QUICK = "{geometry: {method: mmff94, conformers: 1}}"

TEXT = """campaign: {name}
subject: molecule
seed: {seed}
objectives:
{objectives}
ladder:
  - rung: checks
    verifier: molecule.checks
    settings: {{elements: [H, C, N, O, F, S, Cl], max_heavy_atoms: 14}}
    gate: {{sa_score: {{max: 4}}}}
  - {{rung: xtb, verifier: xtb.singlepoint, inline: true{settings}}}
goal: {{kind: hits}}
budget: {{proposals: 1000000}}
proposer: {proposer}
scheduler: {{kind: exhaustive}}
workers: 1
"""
PROPOSER = "{{kind: llm, model: {model}, seeds: {board}, tools: [modify], turns: 16, max_tokens: 80, context: 2048}}"


class Task(NamedTuple):
    """A goal with its board."""

    name: str
    centre: float
    """Middle of the window of the gap, in eV."""
    limit: float | None
    """Largest dipole in debye; None for any."""
    board: Sequence[str]
    """SMILES; empty if it draws from the pool."""

    @property
    def file(self) -> str:
        """Returns the name of the file of its molecules."""
        return f"{self.name}.csv" if self.board else POOL

    def text(self, proposer: str, *, quick: bool, width: float = WIDTH) -> str:
        """Returns the campaign file.

        width: of the window of the gap, in eV. quick: xTB on an MMFF94 geometry instead of the default settings of the
        rung.
        """
        low = round(self.centre - width / 2, 3)
        high = round(self.centre + width / 2, 3)
        lines = [f"  - {{property: homo_lumo_gap, window: [{low}, {high}], unit: eV}}"]
        if self.limit is not None:
            lines.append(f"  - {{property: dipole, max: {self.limit}, unit: D}}")
        settings = f", settings: {QUICK}" if quick else ""
        return TEXT.format(name=self.name, seed=1, objectives="\n".join(lines), settings=settings, proposer=proposer)


def molecules() -> list[str]:
    """Returns the small molecules of the shipped files of seeds, without charges, sorted."""
    found = set()
    for name in SEEDS:
        with (CAMPAIGNS / name).open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                seed = molecule_or_none(row["smiles"])
                if seed is not None and seed.heavy_atoms <= MOST_ATOMS and "." not in seed.smiles:
                    found.add(seed.smiles)
    return sorted(found)


def tasks() -> list[Task]:
    """Returns the tasks of the experiment, always the same."""
    return [
        *(Task(f"train{number:02}", centre, LIMITS[number % 3], []) for number, centre in enumerate(CENTRES)),
        *(
            Task(f"held{number}{'ab'[board]}", centre, limit, sorted(_shuffled()[board * BOARD : (board + 1) * BOARD]))
            for number, (centre, limit) in enumerate(HELD_OUT)
            for board in range(2)
        ),
    ]


def pool() -> list[str]:
    """Returns the SMILES of all molecules that are on no held-out board, sorted."""
    return sorted(_shuffled()[2 * BOARD :])


def _shuffled() -> list[str]:
    found = molecules()
    random.Random("boards of benchmarks/learning").shuffle(found)
    return found


def write(folder: Path, model: str, *, quick: bool = True) -> None:
    """Writes the pool, a board for each held-out task, and a campaign file for each task."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in tasks():
        (folder / task.file).write_text("\n".join(["smiles", *(task.board or pool()), ""]), encoding="utf-8")
        proposer = PROPOSER.format(model=model, board=task.file)
        text = task.text(proposer, quick=quick or not task.board)
        (folder / f"{task.name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="learner")
    parser.add_argument("--level", choices=("training", "default"), default="training")
    given = parser.parse_args()
    write(given.folder, given.model, quick=given.level == "training")
