"""`sciagent slurm check`: compares a site profile with its cluster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sciagent.cli.shared import options
from sciagent.cli.shared.common import Exit, put, put_json, say

app = typer.Typer(help="Clusters under Slurm.", no_args_is_help=True)


@app.command(epilog="Example: sciagent slurm check site.yaml --seconds 7200 --memory 4000")
def check(
    profile: Annotated[Path, typer.Argument(metavar="SITE.yaml", help="The site profile.")],
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Expected wall time of an example job.")] = 3600.0,
    memory: Annotated[int, typer.Option("--memory", min=0, metavar="MB", help="Its expected memory.")] = 2000,
    cores: Annotated[int, typer.Option("--cores", min=1, help="Its cores.")] = 1,
    gpus: Annotated[int, typer.Option("--gpus", min=0, help="Its GPUs.")] = 0,
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
    if json:
        request = asked and {**asdict(asked), "partition": asked.partition.name}
        put_json(
            {"site": site.site, "ok": not result.faults, "faults": result.faults}
            | {
                "partitions": [asdict(partition) for partition in result.partitions],
                "request": request,
                "slurm": result.rehearsal,
            }
        )
    else:
        for partition in result.partitions:
            limit = "no limit of time" if partition.minutes is None else f"{partition.minutes} minutes"
            holds = f"{partition.memory_mb} MB, {partition.cores} cores{_gpus(partition.gpus)}"
            put(f"{partition.name}: {'up' if partition.up else 'not up'}, {limit}, {holds}")
        if asked is not None:
            wanted = f"{asked.minutes} minutes, {asked.memory_mb} MB, {asked.cores} cores{_gpus(asked.gpus)}"
            put(f"a job of {seconds:g} s and {memory} MB: {asked.partition.name}, {wanted}")
        if result.rehearsal:
            put(f"Slurm: {result.rehearsal}")
        for fault in result.faults:
            say(f"{site.site}: {fault}")
    if result.faults:
        raise typer.Exit(Exit.FAILED)


def _gpus(n: int) -> str:
    return f", {n} GPU{'' if n == 1 else 's'}" if n else ""
