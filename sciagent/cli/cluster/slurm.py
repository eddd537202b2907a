"""`sciagent slurm check`: whether a site profile fits its cluster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sciagent.cli.shared.common import Exit, JsonOption, put, put_json, say


def register(app: typer.Typer) -> None:
    slurm = typer.Typer(help="Clusters under Slurm.", no_args_is_help=True)
    slurm.command("check", epilog="Example: sciagent slurm check site.yaml --seconds 7200 --memory 4000")(check)
    app.add_typer(slurm, name="slurm")


def check(
    profile: Annotated[Path, typer.Argument(metavar="SITE.yaml", help="The site profile.")],
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Expected wall time of an example job.")] = 3600.0,
    memory: Annotated[int, typer.Option("--memory", min=0, metavar="MB", help="Its expected memory.")] = 2000,
    cores: Annotated[int, typer.Option("--cores", min=1, help="Its cores.")] = 1,
    gpus: Annotated[int, typer.Option("--gpus", min=0, help="Its GPUs.")] = 0,
    json: JsonOption = False,
) -> None:
    """Read a site profile, compare it with the cluster, and say what would be asked for an example job.

    Slurm is asked whether it would take the job; nothing is submitted. Exit code 1 if something does not fit.
    """
    from sciagent.execution.slurm import check as checking
    from sciagent.execution.slurm.load import load_site
    from sciagent.execution.slurm.partition_choice import Need

    site = load_site(profile)
    found = checking.check(site, Need(seconds, memory, cores, gpus))
    asked = found.request
    if json:
        request = asked and {**asdict(asked), "partition": asked.partition.name}
        put_json(
            {"site": site.site, "ok": not found.faults, "faults": found.faults}
            | {"partitions": [asdict(one) for one in found.partitions], "request": request, "slurm": found.rehearsal}
        )
    else:
        for one in found.partitions:
            limit = "no limit of time" if one.minutes is None else f"{one.minutes} minutes"
            holds = f"{one.memory_mb} MB, {one.cores} cores{_gpus(one.gpus)}"
            put(f"{one.name}: {'up' if one.up else 'not up'}, {limit}, {holds}")
        if asked is not None:
            wanted = f"{asked.minutes} minutes, {asked.memory_mb} MB, {asked.cores} cores{_gpus(asked.gpus)}"
            put(f"a job of {seconds:g} s and {memory} MB: {asked.partition.name}, {wanted}")
        if found.rehearsal:
            put(f"Slurm: {found.rehearsal}")
        for fault in found.faults:
            say(f"{site.site}: {fault}")
    if found.faults:
        raise typer.Exit(Exit.FAILED)


def _gpus(n: int) -> str:
    return f", {n} GPU{'' if n == 1 else 's'}" if n else ""
