"""`sciagent slurm check`: compares a site profile with its cluster."""

from __future__ import annotations

from pathlib import Path

import typer

from sciagent.api.terminal import Line
from sciagent.cli import options
from sciagent.cli.shared import Exit, plural, put_answer

app = typer.Typer(help="Clusters under Slurm.", no_args_is_help=True)


@app.command(epilog="Example: sciagent slurm check site.yaml --seconds 7200 --memory 4000")
def check(
    profile: Path = typer.Argument(metavar="SITE.yaml", help="The site profile."),
    seconds: float = typer.Option(3600.0, min=0, help="Expected wall time of an example job."),
    memory: int = typer.Option(2000, min=0, metavar="MB", help="Its expected memory."),
    cores: int = typer.Option(1, min=1, help="Its cores."),
    gpus: int = typer.Option(0, min=0, help="Its GPUs."),
    json: options.Json = False,
) -> None:
    """Read a site profile, compare it with the cluster, and say what would be asked for an example job.

    Slurm is asked whether it would take the job; nothing is submitted. Exit code 1 if something does not fit.
    """
    from sciagent.execution.slurm import check as checking
    from sciagent.execution.slurm.site import Need, load_site

    site = load_site(profile)
    result = checking.check(site, Need(seconds, memory, cores, gpus))
    asked = result.request
    answer = {
        "site": site.site,
        "ok": not result.faults,
        "faults": result.faults,
        "partitions": result.partitions,
        "request": asked and {**vars(asked), "partition": asked.partition.name},
        "slurm": result.rehearsal,
    }
    lines = []
    for partition in result.partitions:
        limit = "no limit of time" if partition.minutes is None else f"{partition.minutes} minutes"
        holds = f"{partition.memory_mb} MB, {partition.cores} cores{_gpus(partition.gpus)}"
        lines.append(f"{partition.name}: {'up' if partition.up else 'not up'}, {limit}, {holds}")
    if asked is not None:
        wanted = f"{asked.minutes} minutes, {asked.memory_mb} MB, {asked.cores} cores{_gpus(asked.gpus)}"
        lines.append(f"a job of {seconds:g} s and {memory} MB: {asked.partition.name}, {wanted}")
    if result.rehearsal:
        lines.append(f"Slurm: {result.rehearsal}")
    put_answer(answer, json, map(Line, lines), *(f"{site.site}: {fault}" for fault in result.faults))
    if result.faults:
        raise typer.Exit(Exit.FAILED)


def _gpus(n: int) -> str:
    return f", {plural(n, 'GPU')}" if n else ""
