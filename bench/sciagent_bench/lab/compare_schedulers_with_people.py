"""Runs of schedulers where people do the terminal rung: their hits by week, as JSON or as a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.progress import track

from sciagent.api.terminal_tables_and_signals import plain_table, show
from sciagent.cli.output_logging_and_given_structures import put_json
from sciagent.errors import UnknownNameError
from sciagent.scheduling.aims_and_payoff import Aims
from sciagent.scheduling.law.rung_hints import Hint
from sciagent_bench.lab.replay_with_people import WEEK_DAYS, InFlight, Laboratory, LabReplay, replay_lab
from sciagent_bench.replay_score import Interval, summarised
from sciagent_bench.run_trials import Source, run_all
from sciagent_bench.schedulers import SCHEDULERS, Facts


@dataclass(frozen=True)
class LabTrial:
    """One run of a scheduler in a laboratory."""

    name: str
    """Label of the result."""
    scheduler: str
    seed: int
    lab: Laboratory
    how: InFlight = field(default_factory=InFlight)
    hint: Hint | None = None
    """The relation that `priced` assumes of a lower rung before the first answers, as a campaign does of one that
    measures the same property."""


def run_lab(source: Source, trial: LabTrial) -> LabReplay:
    """Returns the claims of a run. The budget is a terminal answer for each slot, and the cheap rungs of everyone."""
    case = source(trial.seed)
    lab = trial.lab
    truth = case.truth
    slots = lab.weeks * lab.per_week * float(truth.costs[:, -1].mean())
    budget = slots + float(truth.costs[:, :-1].sum())
    k = truth.costs.shape[1]
    aims = Aims.with_threshold(k, case.threshold, case.sign)
    aims = replace(aims, aims=(replace(aims.aims[0], hint=trial.hint),))
    facts = Facts(case.threshold, case.sign, case.similarity, trial.seed, budget, k, aims=aims)
    return replay_lab(truth, SCHEDULERS[trial.scheduler](facts), lab, trial.how, case.similarity, trial.seed)


def lab_trials(schedulers: Sequence[str], seeds: int, lab: Laboratory) -> list[LabTrial]:
    """Returns the runs of each scheduler with each seed."""
    for name in schedulers:
        if name not in SCHEDULERS:
            raise UnknownNameError("scheduler", name, SCHEDULERS)
    return [LabTrial(name, name, seed, lab) for seed in range(seeds) for name in schedulers]


def summary_of(done: Iterable[tuple[LabTrial, LabReplay]]) -> Mapping[str, Any]:
    """Returns, by label: hits by week, claims, and withdrawn tasks, each as mean and 95 % interval over seeds; with a
    goal, also the hits beyond it and the week in which it was reached."""
    values: dict[str, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    for trial, run in done:
        lab = trial.lab
        of = values[trial.name]
        for week in weeks_shown(lab):
            of[f"hits_by_week_{week}"].append(run.hits_by(week * WEEK_DAYS))
        of["claims"].append(len(run.of))
        of["withdrawn"].append(run.withdrawn)
        if lab.count is not None:
            of["overshoot"].append(run.hits - lab.count)
            known = sorted(at for at, hit in zip(run.answered, run.hit, strict=True) if hit)
            of["weeks_to_goal"].append(known[lab.count - 1] / WEEK_DAYS if len(known) >= lab.count else None)
    return {name: {what: summarised(each) for what, each in of.items()} for name, of in values.items()}


def weeks_shown(lab: Laboratory) -> list[int]:
    """Returns the weeks at a third, two thirds and the end of a replay."""
    return sorted({max(1, round(lab.weeks * part / 3)) for part in (1, 2, 3)})


def with_people(
    source: Source,
    schedulers: Sequence[str],
    seeds: int,
    latency: float,
    per_week: int,
    weeks: int,
    workers: int,
    json: bool,
) -> None:
    """Prints the hits by week of each scheduler: mean and 95 % interval over seeds."""
    lab = Laboratory(latency, per_week, weeks)
    wanted = lab_trials(schedulers, seeds, lab)
    runs = run_all(source, wanted, workers, run_lab)
    shown = track(runs, "runs", len(wanted), console=Console(stderr=True), transient=True)
    result = summary_of(shown)
    if json:
        put_json({"schedulers": result})
        return
    columns = [f"hits_by_week_{week}" for week in weeks_shown(lab)]
    table = plain_table(
        "scheduler", *(f"week {week}" for week in weeks_shown(lab)), "claims", "withdrawn", title="hits known"
    )
    for name in schedulers:
        table.add_row(name, *(_cell(result[name][what]) for what in (*columns, "claims", "withdrawn")))
    show(table)


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    mean, low, _ = interval
    return f"{mean:.1f}" + ("" if low is None else f" ± {mean - low:.1f}")
