"""Runs a campaign of one paid rung and says what each job took: on the clock, and of whose CPU time."""

from __future__ import annotations

import contextlib
import cProfile
import itertools
import os
import pstats
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger

WORKERS = 2
HERE = Path(__file__).resolve().parent
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
CAMPAIGN = """
campaign: {name}
subject: molecule
objectives: [{{property: {objective}, max: 1000}}]
ladder:
  - {{rung: paid, verifier: {verifier}{settings}}}
goal: {{kind: graded}}
budget: {{core_seconds: 1000000}}
proposer: {{kind: screen, file: {name}.csv, batch: {batch}}}
scheduler: {{kind: exhaustive}}
workers: {workers}
"""


@contextlib.contextmanager
def plugin() -> Iterator[None]:
    """The no-op verifiers, as pip installs a third party's, seen by this process and its children; one thread each."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    os.environ.update(dict.fromkeys(THREADS, "1"))
    with tempfile.TemporaryDirectory(prefix="sciagent-plugin-") as name:
        source = Path(name, "source")
        site = str(Path(name, "site"))
        shutil.copytree(HERE / "plugin", source)
        subprocess.run([*pip, "--no-build-isolation", "--no-index", "--target", site, str(source)], check=True)
        sys.path.insert(0, site)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [site, os.environ.get("PYTHONPATH")]))
        yield


def alcohols(n: int) -> list[str]:
    """n different molecules (at most 3520) that no screen minds: branched alcohols, the smaller ones first."""
    chains = sorted(itertools.product(range(1, 11), range(1, 11), range(1, 9), range(1, 9)), key=sum)
    made = (f"{'C' * a}C({'C' * b})C({'C' * c}){'C' * d}CO" for a, b, c, d in chains if a >= b)
    return list(itertools.islice(made, n))


def open_campaign(
    ledger: Ledger,
    name: str,
    folder: Path,
    *,
    verifier: str,
    molecules: Sequence[str],
    objective: str = "heavy_atoms",
    settings: str = "",
) -> Built:
    (folder / f"{name}.csv").write_text("\n".join(["smiles", *(molecules or ["C"])]) + "\n", encoding="utf-8")
    text = CAMPAIGN.format(
        name=name,
        objective=objective,
        verifier=verifier,
        batch=max(len(molecules), 1),
        workers=WORKERS,
        settings=f", settings: {settings}" if settings else "",
    )
    return create_or_open(ledger, parse_spec(text, base=folder), text, "benchmark").built


def prioritise(alone: bool) -> None:
    """Real-time priority, if `alone`, for the threads of this process and all below it, which forks inherit: what else
    runs on the machine then waits. It takes root, and is for the measured seconds only."""
    policy, priority = (os.SCHED_RR, 1) if alone else (os.SCHED_OTHER, 0)
    for one in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{one.pid}/task").iterdir():
                os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))


def run(built: Built, alone: bool = False, profile: Path | None = None) -> dict[str, Any]:
    """Everything of the campaign; what is told begins when the first jobs have come back: candidates have been entered,
    and the processes of the workers started, by then.

    ms: milliseconds on the clock for each job. cpu_ms: of CPU time, by process. busy: share of the workers' time that
    went into verifications, their processes' start included.
    """
    stamps: list[tuple[datetime, dict[str, float]]] = []
    profiler = cProfile.Profile() if profile else None

    def on_step() -> None:
        if not stamps and driver.pace.known:
            prioritise(alone)
            stamps.append((datetime.now(UTC), _cpu()))
            if profiler:
                profiler.enable()

    with Driver(built) as driver:
        driver.run(on_step)
        if profiler:
            profiler.disable()
        stamps.append((datetime.now(UTC), _cpu()))
        prioritise(False)
    if profiler and profile:
        with profile.open("w", encoding="utf-8") as out:
            pstats.Stats(profiler, stream=out).strip_dirs().sort_stats("tottime").print_stats(40)
    a = t.attempt.c
    paid = [rung.id for rung in built.paid]
    with built.ledger.read() as connection:
        rows = connection.execute(
            sa.select(a.state, a.started_at, a.ended_at, a.wall_seconds).where(
                a.rung_id.in_(paid), a.owner == driver.session.owner
            )
        ).all()
    assert rows and all(state == "done" for state, *_ in rows), "a job did not end well"
    rows = [row for row in rows if row[2] > stamps[0][0]]
    n = len(rows)
    seconds = (max(ended for _, _, ended, _ in rows) - stamps[0][0]).total_seconds()
    cpu = {who: 1e3 * (stamps[-1][1][who] - stamps[0][1][who]) / n for who in stamps[0][1]}
    return {
        "jobs": n,
        "ms": 1e3 * seconds / n,
        "cpu_ms": cpu | {"all": sum(cpu.values())},
        "busy": sum(wall for *_, wall in rows) / (WORKERS * seconds),
    }


def _cpu() -> dict[str, float]:
    """CPU seconds so far: of this process, of the zygotes, and of the jobs they have forked."""
    me = psutil.Process()
    own = me.cpu_times()
    zygotes = 0.0
    jobs = 0.0
    for zygote in (below for nursery in me.children() for below in nursery.children()):
        times = zygote.cpu_times()
        zygotes += times.user + times.system
        jobs += times.children_user + times.children_system
    return {"driver": own.user + own.system, "zygotes": zygotes, "jobs": jobs}


def median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
