"""The campaigns of a benchmark run: their files, their runs in this process, and the area under their curves.

Each task, proposer and seed is a campaign with the one rung `bench.pmo`, in the ledger of one folder, so that it is
resumed, reported and exported like any other. A call is a molecule that the rung has scored. PMO starts from molecules
of ZINC 250k; here the first calls go to molecules that are drawn by the seed from the sample of ChEMBL in MolScore's
wheel, none of which is a reference molecule of a task.

Source: Gao, Fu, Sun, Coley, NeurIPS Datasets and Benchmarks 2022; the area is that of `top_auc` in main/optimizer.py of
github.com/wenhao-gao/mol_opt.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from sciagent.api.campaign import Campaign
from sciagent_bench.campaigns_of_a_benchmark import BenchmarkFolder, spec_of
from sciagent_bench.pmo.molscore_files import MolScoreFiles
from sciagent_bench.pmo.score_verifier import PMO_SCORE, BenchPmo
from sciagent_bench.pmo.scoring_functions import DefinedBy, molecule

START = 100
"""Molecules of the sample that a search begins with; they are the first calls."""
STEP = 100
"""Calls between two points of the curve."""
TOP = 10
"""Best molecules whose mean score makes the curve."""
MOST_CALLS = 10_000
MARGIN = 100
"""Molecules of a screen beyond its calls, in place of those that the safety screen refuses."""
PROPOSERS: Mapping[str, Mapping[str, Any]] = {
    "evolve": {"kind": "evolve"},
    "law": {"kind": "law", "batch": 100, "pool": 800},
    "random": {"kind": "screen", "batch": 100},
}
"""{name: its keys in the campaign file}. `law` is fitted anew for 100 candidates, which it chooses among 800 children;
`random` screens the sample in the order of the lot."""
DATABASE = "pmo.db"


@dataclass(frozen=True)
class PublishedSum:
    """A sum over the 23 tasks of the top-10 area for 10,000 calls, as its authors state it."""

    method: str
    sum: float
    source: str


PUBLISHED = (
    PublishedSum("Genetic GFN", 16.213, "Kim, Kim, Choi, Park, arXiv 2402.05961, abstract of version 1"),
    PublishedSum("the best of others by then", 15.185, "the same abstract"),
    PublishedSum("Chemlactica and Chemma", 17.5, "README of github.com/YerevaNN/ChemLactica"),
)
"""Sums that were read at their source."""


@dataclass(frozen=True)
class TaskRun:
    """The scores of a campaign, in the order of the calls."""

    task: str
    proposer: str
    seed: int
    campaign: str
    """Name of the campaign."""
    calls: int
    """Number of calls that were allowed."""
    scores: tuple[float, ...]

    @cached_property
    def best(self) -> float:
        """The best score."""
        return max(self.scores, default=0.0)

    @cached_property
    def top_mean(self) -> float:
        """The mean score of the best ten."""
        return top_mean(self.scores)

    @cached_property
    def auc(self) -> float:
        """The area under the curve of the best ten."""
        return top_auc(self.scores, self.calls)


def top_mean(scores: Sequence[float]) -> float:
    """Returns the mean of the TOP best scores, or of all if there are fewer; 0 without any."""
    best = heapq.nlargest(TOP, scores)
    return sum(best) / len(best) if best else 0.0


def top_auc(scores: Sequence[float], calls: int) -> float:
    """Returns the area under the mean of the TOP best scores against the number of calls, divided by `calls`.

    The curve begins at 0, has a point after every STEP calls and one after the last, and is joined by straight lines; a
    run that ended early goes on with its last value. scores: in the order of the calls.
    """
    counted = scores[:calls]
    area = 0.0
    before = 0.0
    reached = 0
    for n in [*range(STEP, len(counted), STEP), len(counted)]:
        mean = top_mean(counted[:n])
        area += (n - reached) * (mean + before) / 2
        before = mean
        reached = n
    return (area + (calls - reached) * before) / calls


class TaskRuns:
    """The campaigns in a folder, with the same definition of the tasks."""

    def __init__(self, folder: Path, data: Path, definition: DefinedBy, calls: int) -> None:
        """data: MolScore's wheel or folder. Raises UsageError."""
        self._folder = BenchmarkFolder(folder, DATABASE)
        self._data = data.resolve()
        self._files = MolScoreFiles(self._data)
        self._definition = definition
        self._calls = calls
        self._lots: dict[tuple[int, int], list[str]] = {}  # by seed and number of molecules

    def run(self, task: str, proposer: str, keys: Mapping[str, Any], seed: int) -> TaskRun:
        """Runs a campaign to its end, or reads one that has ended. keys: of the proposer, without its molecules.

        Raises KeyboardInterrupt if the campaign was stopped, UsageError, SpecError and CampaignError.
        """
        name = f"{self._definition}-{task}-{proposer}-{seed}".lower()
        scores = self._folder.calls(self._spec(name, task, keys, seed), self._calls, scores_of)
        return TaskRun(task, proposer, seed, name, self._calls, scores)

    def _spec(self, name: str, task: str, keys: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
        """Returns the campaign file. Its molecules are written beside it."""
        is_screen = keys.get("kind") == "screen"
        molecules = f"{'lot' if is_screen else 'start'}-{seed}.smi"
        self._folder.put_molecules(molecules, self._lot(seed, MOST_CALLS + MARGIN if is_screen else START))
        settings = {"task": task, "definition": self._definition, "data": str(self._data)}
        return spec_of(
            name,
            seed,
            objective={"property": PMO_SCORE.name, "maximise": [0.0, 1.0]},
            rung={"verifier": BenchPmo.name, "settings": settings},
            best=TOP,
            verifications=self._calls if is_screen else max(1, self._calls - START),
            proposer={**keys, "file" if is_screen else "seeds": molecules},
        )

    def _lot(self, seed: int, n: int) -> list[str]:
        """Returns n molecules of the sample in the order of the lot, without the tasks' reference molecules. More of
        the same seed begin with the same ones."""
        if (seed, n) not in self._lots:
            left_out = {*self._references, None}
            drawn = self._files.sample(MOST_CALLS + MARGIN + len(self._references), seed)
            kept = (smiles for smiles in drawn if flat(smiles) not in left_out)
            self._lots[seed, n] = list(islice(kept, n))
        return self._lots[seed, n]

    @cached_property
    def _references(self) -> frozenset[str | None]:
        """The reference molecules of all tasks, without stereo."""
        references: set[str | None] = set()
        for task in task_names():
            for function in self._files.task(task).scoring_functions:
                for smiles in getattr(function.parameters, "ref_smiles", ()):
                    references.add(flat(smiles))
        return frozenset(references)


def scores_of(campaign: Campaign) -> list[float]:
    """Returns the scores of a campaign, in the order of the calls."""
    scores = []
    for row in campaign.candidates():
        value = row.value(PMO_SCORE.name)
        if value is not None:
            scores.append(value.value)
    return scores


def flat(smiles: str) -> str | None:
    """Returns the canonical SMILES without stereo; None if RDKit cannot read it."""
    from rdkit import Chem

    try:
        mol = molecule(smiles)
    except ValueError:
        return None
    return str(Chem.MolToSmiles(mol, isomericSmiles=False))


def task_names() -> tuple[str, ...]:
    """Returns the names of the tasks."""
    names: tuple[str, ...] = get_args(BenchPmo.Settings.model_fields["task"].annotation)
    return names


@dataclass(frozen=True)
class TaskFigures:
    """The figures of a proposer on a task: means over seeds."""

    task: str
    best: float
    top_mean: float
    auc: float
    auc_spread: float | None
    """Standard deviation of the area over seeds; None for a single one."""
    aucs: tuple[float, ...]
    """The area of each seed."""
    calls: tuple[int, ...]
    """The calls of each seed."""


def figures(runs: Iterable[TaskRun]) -> dict[str, list[TaskFigures]]:
    """Returns the figures of each proposer, by task in the order of the runs."""
    grouped: dict[str, dict[str, list[TaskRun]]] = {}
    for run in runs:
        grouped.setdefault(run.proposer, {}).setdefault(run.task, []).append(run)
    return {proposer: [_of_task(group) for group in by_task.values()] for proposer, by_task in grouped.items()}


def _of_task(runs: Sequence[TaskRun]) -> TaskFigures:
    aucs = tuple(run.auc for run in runs)
    return TaskFigures(
        task=runs[0].task,
        best=statistics.fmean(run.best for run in runs),
        top_mean=statistics.fmean(run.top_mean for run in runs),
        auc=statistics.fmean(aucs),
        auc_spread=statistics.stdev(aucs) if len(aucs) > 1 else None,
        aucs=aucs,
        calls=tuple(len(run.scores) for run in runs),
    )


def seed_sums(of_tasks: Sequence[TaskFigures]) -> list[float]:
    """Returns the sum over tasks of the area, for each seed."""
    return [sum(aucs) for aucs in zip(*(each.aucs for each in of_tasks), strict=True)]
