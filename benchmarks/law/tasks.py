"""Writes the 24 tasks on which proposers are compared without any past, and the file of the comparison:

    python -m benchmarks.law.tasks FOLDER [--width EV] [--tasks N] [--past CAMPAIGN ... | --model NAME]
    cd FOLDER && sciagent evaluate evaluate.yaml

With a past, the arms are those that remember these campaigns, which have to be in the same ledger; with a model of this
machine, the model alone and behind the filter.

A task is a board of 8 molecules that are verified first, and a goal: a window of the GFN2 gap, with or without a limit
of the dipole. No molecule of a board is in a file of seeds or on a board of `benchmarks/learning`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.learning import tasks as learning

BOARDS = Path(__file__).parent / "boards.csv"
GOALS = ((1.9, None), (2.3, 2.5), (2.9, 1.5), (3.5, 2.5), (1.7, 2.0), (2.6, None), (3.2, 1.5), (4.2, 2.5))
"""(middle of the window of the gap in eV, largest dipole in debye)."""
TASKS = 24
EVALUATE = """evaluate:
  tasks: [{tasks}]
  verifications: 48
  seeds: [1]
  arms:
"""
ARMS = """    evolve: {{proposer: {{kind: evolve, batch: 8}}}}
    law: {{proposer: {{kind: law}}}}
    random: {{policy: scripted}}
    random-filter: {{policy: scripted, filter: {{keep: 1, of: 16}}}}
    evolve-filter: {{proposer: {{kind: evolve, batch: 8, filter: {{keep: 1, of: 16}}}}}}
"""
ARMS_WITH_PAST = """    law-past: {{proposer: {{kind: law, from: [{past}], only_new: true}}}}
    random-filter-past: {{policy: scripted, filter: {{keep: 1, of: 16, from: [{past}], only_new: true}}}}
"""
ARMS_OF_MODEL = """    {model}: {{model: {model}}}
    {model}-filter: {{model: {model}, filter: {{keep: 1, of: 16}}}}
"""


def boards() -> list[list[str]]:
    """Returns the SMILES of each board."""
    found: dict[str, list[str]] = {}
    with BOARDS.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            found.setdefault(row["board"], []).append(row["smiles"])
    return list(found.values())


def write(folder: Path, width: float, n_tasks: int = TASKS, past: Sequence[str] = (), model: str = "") -> None:
    """Writes the boards, the campaign files and `evaluate.yaml`.

    width: of the window of the gap, in eV. n_tasks: the first of the tasks that are compared. past: names of campaigns
    that the arms remember. model: name of a model of this machine that is an arm.
    """
    (folder / "tasks").mkdir(parents=True, exist_ok=True)
    every = boards()
    names = []
    for number in range(n_tasks):
        centre, limit = GOALS[number % len(GOALS)]
        task = learning.Task(f"new{number:02}", centre, limit, every[number % len(every)])
        names.append(f"tasks/{task.name}.yaml")
        (folder / "tasks" / task.file).write_text("\n".join(["smiles", *task.board, ""]), encoding="utf-8")
        proposer = learning.PROPOSER.format(model="none", board=task.file)
        text = task.text(proposer, quick=True, width=width)
        (folder / "tasks" / f"{task.name}.yaml").write_text(text, encoding="utf-8")
    arms = ARMS
    if past:
        arms = ARMS_WITH_PAST
    elif model:
        arms = ARMS_OF_MODEL
    text = (EVALUATE + arms).format(tasks=", ".join(names), past=", ".join(past), model=model)
    (folder / "evaluate.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", type=float, default=learning.WIDTH)
    parser.add_argument("--tasks", type=int, default=TASKS, choices=range(1, TASKS + 1), metavar="N")
    arms = parser.add_mutually_exclusive_group()
    arms.add_argument("--past", nargs="+", default=[], metavar="CAMPAIGN")
    arms.add_argument("--model", default="")
    given = parser.parse_args()
    write(given.folder, given.width, given.tasks, given.past, given.model)
