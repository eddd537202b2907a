"""The part of `sciagent bench scheduling` in which people do the last rung."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress import track

from sciagent.api.terminal import plain_table, show
from sciagent.cli.shared import put_json
from sciagent_bench.lab.lab_trial import lab_trials, run_lab, summary_of, weeks_shown
from sciagent_bench.lab.replay import Laboratory
from sciagent_bench.score import Interval
from sciagent_bench.trial import Source, run_all


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
    runs = track(
        run_all(source, wanted, workers, run_lab), "runs", len(wanted), console=Console(stderr=True), transient=True
    )
    result = summary_of(runs)
    if json:
        put_json({"schedulers": result})
        return
    columns = [f"hits_by_week_{week}" for week in weeks_shown(lab)]
    table = plain_table(
        "hits known", "scheduler", *(f"week {week}" for week in weeks_shown(lab)), "claims", "withdrawn"
    )
    for name in schedulers:
        table.add_row(name, *(_cell(result[name][what]) for what in (*columns, "claims", "withdrawn")))
    show(table)


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    mean, low, _ = interval
    return f"{mean:.1f}" + ("" if low is None else f" ± {mean - low:.1f}")
