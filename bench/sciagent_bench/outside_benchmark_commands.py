"""Outside benchmarks of proposers: `sciagent bench pmo`, tasks of Practical Molecular Optimization; `sciagent bench
leads`, leads of which each molecule has to stay similar; `sciagent bench made`, stable crystals of a chemical
system."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console

from sciagent.api.terminal_tables_and_signals import plain_table, show
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import put_json, say
from sciagent.errors import UnknownNameError, UsageError

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PMO_EXAMPLE = "sciagent bench pmo --tasks QED,JNK3 --proposer evolve,law --seeds 3"
LEADS_EXAMPLE = "sciagent bench leads --leads zolpidem --oracles QED,plogP --proposer evolve,law --calls 200"
MADE_EXAMPLE = "sciagent bench made --systems Al-Li-V,Hf-Ni-Zr --proposer random,law --seeds 3"

if TYPE_CHECKING:
    from sciagent_bench.leads.lead_runs import LeadFigures
    from sciagent_bench.made.discovery_figures import SystemFigures
    from sciagent_bench.pmo.task_runs import TaskFigures

MolScoreOption = Annotated[
    Path | None,
    typer.Option(
        "--data", help="A wheel of MolScore 1.9.5, or its folder; default: pip downloads it into the user's cache."
    ),
]
FolderOption = Annotated[Path, typer.Option("--folder", help="Where the campaigns and their ledger are kept.")]
Name = TypeVar("Name", bound=str)


def _proposer_option(names: str, given: str) -> Any:
    """Returns the option that says who proposes. names: of the proposers that are built in. given: what a file leaves
    out, since the benchmark gives it."""
    return typer.Option(
        metavar=f"{names}|FILE.yaml,...",
        help=f"Who proposes; a file has the keys of a campaign file's proposer, but no {given}.",
    )


class TaskDefinition(StrEnum):
    TDC = "tdc"
    MOLSCORE = "molscore"


def pmo(
    tasks: Annotated[str, typer.Option(metavar="all|NAME,...", help="A wrong name lists them.")] = "all",
    calls: Annotated[int, typer.Option(min=110, max=10_000, help="Molecules that each run may score.")] = 1000,
    proposer: Annotated[str, _proposer_option("evolve|law|random", "molecules")] = "evolve",
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each proposer on each task.")] = 3,
    definition: Annotated[
        TaskDefinition, typer.Option(help="Of the tasks: as PMO was published, or as MolScore has them.")
    ] = TaskDefinition.TDC,
    data: MolScoreOption = None,
    folder: FolderOption = Path("pmo"),
    json: options.Json = False,
) -> None:
    """The 23 tasks of Practical Molecular Optimization: best score, and area under the curve of the best ten.

    Each task, proposer and seed is a campaign in the ledger pmo.db of the folder; the same command goes on where it
    was stopped. A call is a molecule that is scored. The first 100 calls of evolve and law go to molecules by lot from
    the sample of ChEMBL in MolScore's wheel; random scores nothing else.
    """
    os.environ.update(dict.fromkeys(THREADS, "1"))  # before numpy is loaded
    from sciagent_bench.campaigns_of_a_benchmark import proposer_keys
    from sciagent_bench.pmo.molscore_files import cache_folder, downloaded
    from sciagent_bench.pmo.task_runs import PROPOSERS, TaskRuns, figures, task_names

    chosen = _chosen(tasks, "task", task_names())
    proposers = dict(proposer_keys(text, PROPOSERS) for text in _some(proposer, "proposer"))
    if data is None:
        data = downloaded(cache_folder())
    all_runs = TaskRuns(folder, data, definition.value, calls)
    done = []
    for seed, task in product(range(1, seeds + 1), chosen):
        for name, keys in proposers.items():
            run = all_runs.run(task, name, keys, seed)
            done.append(run)
            say(f"{task} {name} {seed}: best {run.best:.3f}, area {run.auc:.3f} of {len(run.scores)} calls")
    found = figures(done)
    if json:
        put_json(pmo_answer(found, definition.value, calls))
    else:
        _print_pmo(found, calls)


def pmo_answer(found: Mapping[str, Sequence[TaskFigures]], definition: str, calls: int) -> Mapping[str, Any]:
    """Returns the figures as JSON. found: by proposer."""
    from sciagent_bench.pmo.task_runs import PUBLISHED, seed_sums

    proposers = {}
    for name, of_tasks in found.items():
        proposers[name] = {"tasks": of_tasks, "sum": sum(each.auc for each in of_tasks), "sums": seed_sums(of_tasks)}
    return {"definition": definition, "calls": calls, "proposers": proposers, "published": PUBLISHED}


def _print_pmo(found: Mapping[str, Sequence[TaskFigures]], calls: int) -> None:
    from sciagent_bench.pmo.task_runs import PUBLISHED, seed_sums, task_names

    tables = []
    for name, of_tasks in found.items():
        table = plain_table("task", "best", "mean of best 10", "area", "±", title=f"{name}, {calls} calls")
        for each in of_tasks:
            spread = "–" if each.auc_spread is None else f"{each.auc_spread:.3f}"
            table.add_row(each.task, f"{each.best:.3f}", f"{each.top_mean:.3f}", f"{each.auc:.3f}", spread)
        best = sum(each.best for each in of_tasks)
        top = sum(each.top_mean for each in of_tasks)
        sums = seed_sums(of_tasks)
        spread = "–" if len(sums) < 2 else f"{stdev(sums):.3f}"
        table.add_row(f"sum of {len(of_tasks)}", f"{best:.3f}", f"{top:.3f}", f"{fmean(sums):.3f}", spread)
        tables.append(table)
    if any(len(of_tasks) == len(task_names()) for of_tasks in found.values()):
        table = plain_table("published, 10000 calls, from ZINC", "sum", "source", left=["source"])
        for published in PUBLISHED:
            table.add_row(published.method, f"{published.sum:g}", published.source)
        tables.append(table)
    show(*tables)


def leads(
    leads: Annotated[str, typer.Option(metavar="all|NAME,...", help="A wrong name lists them.")] = "all",
    oracles: Annotated[
        str, typer.Option(metavar="all|NAME,...", help="QED, plogP (penalised logP), DRD2, GSK3B, JNK3.")
    ] = "all",
    calls: Annotated[int, typer.Option(min=2, max=10_000, help="Molecules that each run may score.")] = 500,
    proposer: Annotated[str, _proposer_option("evolve|law", "molecules")] = "evolve",
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each proposer on each lead.")] = 3,
    similarity: Annotated[
        float, typer.Option(min=0, max=1, help="Least Tanimoto similarity to the lead (ECFP4, 2,048 bits).")
    ] = 0.4,
    data: MolScoreOption = None,
    folder: FolderOption = Path("leads"),
    json: options.Json = False,
) -> None:
    """Leads, of which a better molecule is sought that stays similar: best score, successes, calls to the first one.

    Each lead, oracle, proposer and seed is a campaign in the ledger leads.db of the folder; the same command goes on
    where it was stopped. The lead is the first call. A success is similar enough and has a QED of at least 0.9, a
    penalised logP of at least 3 above the lead's, or a probability of activity of at least 0.5.
    """
    os.environ.update(dict.fromkeys(THREADS, "1"))  # before numpy is loaded
    from sciagent_bench.campaigns_of_a_benchmark import proposer_keys
    from sciagent_bench.leads import lead_runs
    from sciagent_bench.leads.lead_verifier import ACTIVITY_ORACLES
    from sciagent_bench.pmo.molscore_files import cache_folder, downloaded

    known_leads = lead_runs.leads()
    chosen_leads = _chosen(leads, "lead", known_leads)
    chosen_oracles = _chosen(oracles, "oracle", lead_runs.ORACLES)
    proposers = dict(proposer_keys(text, lead_runs.PROPOSERS) for text in _some(proposer, "proposer"))
    if data is None and set(ACTIVITY_ORACLES) & set(chosen_oracles):
        data = downloaded(cache_folder())
    all_runs = lead_runs.LeadRuns(folder, data, similarity, calls)
    done = []
    for seed, lead, oracle in product(range(1, seeds + 1), chosen_leads, chosen_oracles):
        for name, keys in proposers.items():
            run = all_runs.run(known_leads[lead], oracle, name, keys, seed)
            done.append(run)
            best = run.lead_score if run.best is None else run.best.score
            success = "no success" if run.calls_to_success is None else f"success after {run.calls_to_success}"
            line = f"{run.lead_score:.3f} to {best:.3f}, {success} of {len(run.scored)} calls"
            say(f"{lead} {oracle} {name} {seed}: {line}")
    found = lead_runs.figures(done)
    if json:
        put_json({"similarity": similarity, "calls": calls, "proposers": found})
    else:
        _print_leads(found, similarity, calls)


def _print_leads(found: Mapping[str, Sequence[LeadFigures]], similarity: float, calls: int) -> None:
    tables = []
    for name, of_leads in found.items():
        title = f"{name}, {calls} calls, similarity of at least {similarity:g}"
        table = plain_table("lead", "oracle", "lead's score", "best", "±", "successes", "calls to success", title=title)
        for each in of_leads:
            spread = "–" if each.best_spread is None else f"{each.best_spread:.3f}"
            needed = [seed.calls_to_success for seed in each.seeds if seed.calls_to_success is not None]
            table.add_row(
                each.lead,
                each.oracle,
                f"{each.lead_score:.3f}",
                f"{each.best:.3f}",
                spread,
                f"{each.successes} of {len(each.seeds)}",
                ", ".join(map(str, needed)) or "–",
            )
        n_successes = sum(each.successes for each in of_leads)
        n_runs = sum(len(each.seeds) for each in of_leads)
        table.add_row("all", "", "", "", "", f"{n_successes} of {n_runs}", "")
        tables.append(table)
    show(*tables)


def made(
    systems: Annotated[str, typer.Option(metavar="A-B-C,...", help="Each with two to five elements.")] = "Al-Li-V",
    calls: Annotated[int, typer.Option(min=20, max=200, help="Structures that each run may relax.")] = 50,
    proposer: Annotated[str, _proposer_option("random|evolve|law", "structures")] = "random,evolve,law",
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each proposer on each system.")] = 3,
    model: Annotated[str, typer.Option(metavar="NAME", help="The force field; a wrong name lists them.")] = (
        "chgnet-0.3.0"
    ),
    folder: FolderOption = Path("made"),
    json: options.Json = False,
) -> None:
    """Search for stable crystals by MADE's protocol: discoveries for each call of a force field.

    A discovery is a relaxed structure unlike those that were known or found before, at most
    0.1 eV/atom above the hull of all answers. mSUN: discoveries for each call; AUDC: area under
    their curve; EF: discoveries over those of random; AF: calls of random over own calls until
    there are as many as random has in the end.
    Each system, proposer and seed is a campaign in the ledger made.db of the folder; the same
    command goes on where it was stopped. The first 10 calls go to prototypes by lot, as all of
    random's do.
    """
    os.environ.update(dict.fromkeys(THREADS, "1"))  # before numpy is loaded
    from rich.progress import Progress

    from sciagent_bench.campaigns_of_a_benchmark import proposer_keys
    from sciagent_bench.made.discovery_figures import figures
    from sciagent_bench.made.system_runs import PROPOSERS, ChemicalSystem, SystemRuns

    chosen = list(dict.fromkeys(map(ChemicalSystem.of, _some(systems, "system"))))
    proposers = dict(proposer_keys(text, PROPOSERS) for text in _some(proposer, "proposer"))
    all_runs = SystemRuns(folder, model, calls)
    done = []
    wanted = list(product(range(1, seeds + 1), chosen, proposers))
    with Progress(console=Console(stderr=True), transient=True) as bar:
        bar_row = bar.add_task("", total=len(wanted))
        for seed, system, name in wanted:
            label = f"{system.name} {name} {seed}"
            bar.update(bar_row, description=label)
            run = all_runs.run(system, name, proposers[name], seed)
            done.append(run)
            found = len(run.curve.discoveries)
            n = len(run.curve.counts)
            say(f"{label}: {found} discoveries in {n} calls, {run.failures} without an answer")
            bar.advance(bar_row)
    result = figures(done, calls)
    if json:
        put_json({"model": model, "calls": calls, "proposers": result})
    else:
        _print_made(result, calls)


def _print_made(found: Mapping[str, Sequence[SystemFigures]], calls: int) -> None:
    from sciagent_bench.replay_score import summarised

    tables = []
    for system in dict.fromkeys(each.system for of_systems in found.values() for each in of_systems):
        columns = ("proposer", "novel", "discoveries", "mSUN", "AUDC", "EF", "AF", "core-seconds")
        table = plain_table(*columns, title=f"{system}, {calls} calls")
        for name, of_systems in found.items():
            [of_system] = [each for each in of_systems if each.system == system]
            table.add_row(
                name,
                f"{fmean(of_system.novel):.1f}",
                cell(summarised(of_system.discovered), 1, digits=1),
                cell(summarised(of_system.msun), 1, digits=2),
                cell(summarised(of_system.audc), 1, digits=2),
                cell(summarised(of_system.enhancement or ()), 1, digits=2),
                cell(summarised(of_system.acceleration or ()), 1, digits=2),
                f"{fmean(of_system.core_seconds):.0f}",
            )
        tables.append(table)
    show(*tables)


def listed(text: str) -> list[str]:
    """Returns the names in a text with commas, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _chosen(text: str, kind: str, known: Iterable[Name]) -> list[Name]:
    """Returns the names in a text with commas, or all known ones for `all`. Raises UsageError without one, and for a
    name that is not known."""
    by_text: dict[str, Name] = {name: name for name in known}
    names = list(by_text) if text == "all" else _some(text, kind)
    for name in names:
        if name not in by_text:
            raise UnknownNameError(kind, name, by_text)
    return [by_text[name] for name in names]


def _some(text: str, kind: str) -> list[str]:
    """Returns the names in a text with commas. Raises UsageError if there is none."""
    names = listed(text)
    if not names:
        raise UsageError(f'"{text}" names no {kind}')
    return names


def cell(interval: tuple[float, float | None, float | None] | None, factor: float, digits: int | None = None) -> str:
    """Returns mean and half the interval. digits: after the point; default: 2 for percentages, else 3."""
    if interval is None:
        return "–"
    mean, low, _ = interval
    if digits is None:
        digits = 2 if factor > 1 else 3
    half = "" if low is None else f" ± {factor * (mean - low):.{digits}f}"
    return f"{factor * mean:.{digits}f}{half}"
