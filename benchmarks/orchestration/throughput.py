"""What a job costs beside its verification, with everything in the ledger, against bare queues in the same run.

    python -m benchmarks.orchestration.throughput --peers PEERS/bin/python --rounds 5 --executors celery \
        --jobs 300 --singles 50 --out benchmarks/orchestration/rounds.json

No-op jobs, two workers. Ours: a driver offers them, a worker's two slots claim, run and complete them, the driver
settles the candidates. Each has its decision, job, attempt, reservation, evidence, quantity, bill and cost observation,
and is verified in a process that is not the worker's. All are proposed before the clock begins, which runs from the
first offer to the last candidate placed.
A round trip: one job is offered, the worker is woken, and the clock stops when its end is seen in the ledger.

Peers: Celery 5.7 with a Redis result backend and nothing durable, `concurrent.futures.ProcessPoolExecutor`, Colmena
with Redis queues and its local task server. They live in an environment of their own:

    python3 -m venv PEERS && PEERS/bin/pip install 'celery[redis]>=5.7,<6' colmena

Growth: the same with so many jobs, each with its attempt, already in the ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.driving.remote_jobs import request_for_workers
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.execution.celery_executor_and_choice_by_name import executor_of
from sciagent.execution.executor_wakes_workers import Executor
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, offers_claims_and_ended_jobs
from sciagent.store.job_queue.jobs import NewJob, Offer
from sciagent.store.job_queue.offers_claims_and_ended_jobs import OutstandingJob
from sciagent.store.results import candidates
from tests.support.elsewhere import molecules, until, written
from tests.support.plugins import MISBEHAVING, forget_registry, install
from tests.support.servers.postgres import own_postgres
from tests.support.servers.valkey import own_valkey

HERE = Path(__file__).parent
NOOP = "{declared: 0.001}"


class Environment:
    """The servers of a run, and where its files are."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.valkey = stack.enter_context(own_valkey())
        self.postgres = stack.enter_context(own_postgres())
        site = folder / "site"
        install(MISBEHAVING, site)
        sys.path.insert(0, str(site))
        stack.callback(sys.path.remove, str(site))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
        os.environ["SCIAGENT_BROKER"] = self.valkey.url
        forget_registry()

    def ledger(self, kind: str, name: str) -> Ledger:
        url = str(self.folder / f"{name}.db")
        if kind == "postgresql":
            import psycopg
            from sqlalchemy.engine import make_url

            from sciagent.store.database import engine, migrate_and_back_up

            plain = make_url(self.postgres.url).set(drivername="postgresql")
            with psycopg.connect(plain.render_as_string(False), autocommit=True) as admin:
                admin.execute(f"CREATE DATABASE {name}")
            url = make_url(self.postgres.url).set(database=name).render_as_string(False)
            made = engine.connect(engine.ledger_url(url))
            migrate_and_back_up.upgrade(made)
            made.dispose()
        return Ledger(url, artifacts=self.folder / f"{name}-artifacts")


@contextmanager
def worker(ledger: Ledger, folder: Path, executor: str) -> Iterator[None]:
    """One worker of two slots."""
    env = dict(os.environ, OMP_NUM_THREADS="1", SCIAGENT_LEDGER=ledger.url.render_as_string(False))
    env["SCIAGENT_ARTIFACTS"] = str(ledger.artifacts.root)
    command = [
        sys.executable,
        "-m",
        "sciagent",
        "worker",
        "--slots",
        "2",
        "--executor",
        executor,
        "--scratch",
        str(folder / "worker-scratch"),
    ]
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


class Trip(NamedTuple):
    """Seconds of the parts of one round trip; they follow each other."""

    offered: float
    """The driver's transaction that makes and offers the job."""
    claimed: float
    """From the driver's message to the start of the attempt: broker, waking of the worker, transaction of the claim."""
    ran: float
    """The attempt: a process is forked and verifies, and the transaction of the result begins."""
    written: float
    """From the end that the attempt states to the end that the driver has read: commit, message, waking, reading."""

    @property
    def total(self) -> float:
        return sum(self)


def round_trips(ledger: Ledger, built: Built, executor: Executor, n: int) -> list[Trip]:
    """One job after the other, on the candidates of the campaign, from the offer to its end as it is seen."""
    rung = built.paid[0]
    bell = threading.Event()
    trips = []
    executor.listen(built.row.id, bell)
    with ledger.begin() as connection:
        campaigns.write_requests(connection, {rung.id: request_for_workers(rung)})
        rows = connection.execute(sa.select(t.candidate.c.id).order_by(t.candidate.c.id)).scalars().all()
        loaded = candidates.load(connection, rows)
    for number in range(n):
        id_ = rows[number % len(rows)]
        key = rung.verifier.evidence_key(loaded[id_], 1 + number // len(rows))
        began = time.time()
        with ledger.begin() as connection:
            offer = Offer("simulation", 0.001, None)
            new = NewJob(built.row.id, rung.id, id_, key.replicate, key.hash, 0.0, offer)
            (job_id,) = jobs.create_many(connection, [new])
        offered = time.time()
        executor.wake({"simulation": 1})
        out = {job_id: OutstandingJob(job_id, id_, rung.id)}
        while True:
            bell.wait(0.02)
            bell.clear()
            with ledger.read() as connection:
                if offers_claims_and_ended_jobs.ended_jobs(connection, out):
                    break
        seen = time.time()
        with ledger.read() as connection:
            of_attempt = sa.select(t.attempt.c.started_at, t.attempt.c.ended_at).where(t.attempt.c.job_id == job_id)
            started_at, ended_at = (moment.timestamp() for moment in connection.execute(of_attempt).one())
        trips.append(Trip(offered - began, started_at - offered, ended_at - started_at, seen - ended_at))
    return trips


def cpu_seconds() -> dict[str, float]:
    """CPU seconds so far of the driver (this process), the worker, its processes of jobs, and the servers."""
    me = psutil.Process()
    spent = {"driver": _own(me), "worker": 0.0, "processes": 0.0, "servers": 0.0}
    for child in me.children():
        below = sum(_own(process) + _reaped(process) for process in child.children(recursive=True))
        if "worker" in child.cmdline():
            spent["worker"] += _own(child)
            spent["processes"] += below + _reaped(child)
        else:
            spent["servers"] += _own(child) + _reaped(child) + below
    return spent


def _own(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _reaped(process: psutil.Process) -> float:
    """CPU seconds of ended children that the process has waited for."""
    times = process.cpu_times()
    return float(times.children_user + times.children_system)


def all_at_once(built: Built, executor: Executor) -> float:
    """Seconds from the first offer to the last candidate placed."""
    with Driver(built, executor=executor) as driver:
        began: list[float] = []

        def step() -> None:
            if not began and driver.session.crews[0].running:
                began.append(time.perf_counter())

        driver.run(step)
        return time.perf_counter() - began[0]


def ours(
    env: Environment, kind: str, executor: str, n: int, singles: int, rows: int = 0, number: int = 0
) -> dict[str, Any]:
    """ms a job, and round trips. rows: of jobs and attempts that are there before. number: of the run, from 0."""
    name = f"{kind[:2]}_{executor}_{rows}_{number}"
    ledger = env.ledger(kind, name)
    folder = env.folder / name
    (folder / "warm").mkdir(parents=True)
    first = written(ledger, folder / "warm", molecules(40), settings=NOOP, name="warm")
    second = written(ledger, folder, molecules(n), settings="{declared: 0.001, hang_at: nowhere}", name="noop", batch=n)
    with worker(ledger, folder, executor):
        until(lambda: _alive(ledger), 60)
        all_at_once(first, _executor(executor, ledger))
        if rows:
            fill(ledger, rows)
        before = cpu_seconds()
        seconds = all_at_once(second, _executor(executor, ledger))
        cpu = {role: round(1000 * (spent - before[role]) / n, 2) for role, spent in cpu_seconds().items()}
        telling = _executor(executor, ledger)
        trips = round_trips(ledger, first, telling, singles)
        telling.close()
    with ledger.read() as connection:
        done = connection.execute(
            sa.select(sa.func.count()).where(t.job.c.campaign_id == second.row.id, t.job.c.state == "done")
        ).scalar_one()
    ledger.close()
    if done != n:
        raise SystemExit(f"{done} of {n} jobs were done")
    parts = {name: round(1000 * statistics.median(getattr(trip, name) for trip in trips), 2) for name in Trip._fields}
    return summary(seconds, n, [trip.total for trip in trips]) | {"round_trip_parts_ms": parts, "cpu_ms_per_job": cpu}


GFN1 = """
campaign: gfn1
subject: molecule
objectives: [{property: homo_lumo_gap, max: 3, unit: eV}]
ladder:
  - {rung: xtb, verifier: xtb.singlepoint, settings: {method: GFN1-xTB}}
goal: {kind: graded}
budget: {core_seconds: 100000}
proposer: {kind: screen, file: molecules.smi, batch: 200}
scheduler: {kind: exhaustive}
workers: 2
"""


def small_molecules() -> list[str]:
    """200 of 8 to 15 heavy atoms: two chains of carbon with something between."""
    chains = [(a, size - a) for size in range(7, 14) for a in range(size // 2 + 1, size + 1)]
    found = [f"{'C' * a}{middle}{'C' * b}" for a, b in chains for middle in ("O", "N", "S", "C(=O)", "C(F)", "C#C")]
    return found[:200]


def busy(env: Environment, kind: str, executor: str) -> dict[str, Any]:
    """200 GFN1 jobs. busy: of the time from the first start to the last end, the share in which two slots were
    verifying, by the attempts' own times: those that share a process follow each other in it. held: in which they had
    a job in hand, with what is read and written of it."""
    name = f"gfn1_{kind[:2]}"
    ledger = env.ledger(kind, name)
    folder = env.folder / name
    folder.mkdir()
    (folder / "molecules.smi").write_text("\n".join(small_molecules()) + "\n")
    built = create_or_open(ledger, parse_spec(GFN1, base=folder), GFN1, "benchmark").built
    with worker(ledger, folder, executor):
        until(lambda: _alive(ledger), 60)
        all_at_once(built, _executor(executor, ledger))
    with ledger.read() as connection:
        a = t.attempt.c
        rows = connection.execute(
            sa.select(a.owner, a.started_at, a.ended_at, a.wall_seconds).where(a.job_id.is_not(None))
        ).all()
    ledger.close()
    took = (max(row.ended_at for row in rows) - min(row.started_at for row in rows)).total_seconds()
    worked = sum(row.wall_seconds for row in rows)
    groups = {(row.owner, row.started_at, row.ended_at) for row in rows}  # who share a process have these in common
    held = sum((ended_at - started_at).total_seconds() for _, started_at, ended_at in groups)
    return {
        "jobs": len(rows),
        "seconds": round(took, 1),
        "seconds_a_job": round(worked / len(rows), 3),
        "busy": round(worked / (2 * took), 3),
        "held": round(held / (2 * took), 3),
    }


def _executor(name: str, ledger: Ledger) -> Executor:
    found = executor_of(name, ledger)
    assert found is not None
    return found


def _alive(ledger: Ledger) -> bool:
    with ledger.read() as connection:
        return bool(connection.execute(sa.select(sa.func.count()).select_from(t.worker)).scalar_one())


def fill(ledger: Ledger, rows: int) -> None:
    """Jobs that are done, each with its attempt, as replicates of one candidate."""
    with ledger.begin() as connection:
        last = connection.execute(sa.select(t.job).order_by(t.job.c.id.desc()).limit(1)).mappings().one()
        attempt = connection.execute(sa.select(t.attempt).where(t.attempt.c.job_id == last["id"])).mappings().first()
        base = 1_000_000
        series = (
            f"generate_series({base}, {base + rows - 1}) AS s(n)"
            if connection.dialect.name == "postgresql"
            else f"(WITH RECURSIVE s(n) AS (SELECT {base} UNION ALL SELECT n + 1 FROM s WHERE n < {base + rows - 1}) "
            "SELECT n FROM s) AS s"
        )
        names = [c.name for c in t.job.columns if c.name not in ("id", "replicate")]
        connection.exec_driver_sql(
            f"INSERT INTO job (replicate, {', '.join(names)}) SELECT s.n, {', '.join('j.' + one for one in names)} "
            f"FROM job j, {series} WHERE j.id = {last['id']}"
        )
        names = [c.name for c in t.attempt.columns if c.name not in ("id", "job_id")]
        connection.exec_driver_sql(
            f"INSERT INTO attempt (job_id, {', '.join(names)}) SELECT j.id, {', '.join('a.' + one for one in names)} "
            f"FROM attempt a, job j WHERE a.id = {attempt['id']} AND j.replicate >= {base}"
        )
    with ledger.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE") if connection.dialect.name == "postgresql" else None


def summary(seconds: float, n: int, trips: Sequence[float]) -> dict[str, Any]:
    return {
        "jobs": n,
        "seconds": round(seconds, 3),
        "ms_per_job": round(1000 * seconds / n, 3),
        "round_trip_ms": {
            "p50": round(1000 * statistics.median(trips), 2),
            "p95": round(1000 * float(np.quantile(np.array(trips), 0.95)), 2),
        },
    }


def peer(what: str, python: str, port: int, n: int, singles: int) -> dict[str, Any]:
    command = [
        python,
        str(HERE / "peers.py"),
        what,
        "--redis-port",
        str(port),
        "--jobs",
        str(n),
        "--singles",
        str(singles),
    ]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PEERS_REDIS_PORT": str(port)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=env, cwd=HERE)
    if done.returncode:
        raise SystemExit(f"{what}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return summary(found["seconds"], n, found["trips"])


def alternated(env: Environment, given: argparse.Namespace, tell: Callable[[str], None]) -> dict[str, Any]:
    """Runs bare Celery and ours in turns; returns all runs, and the medians of their figures and of their ratios."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for number in range(given.rounds):
        bare = peer("celery", given.peers, env.valkey.port, given.jobs, given.singles)
        runs.setdefault("bare celery", []).append(bare)
        tell(f"{number}: bare celery: {bare}")
        for kind in given.ledgers:
            for executor in given.executors:
                run = ours(env, kind, executor, given.jobs, given.singles, number=number)
                run["against_bare_celery"] = round(run["ms_per_job"] / bare["ms_per_job"], 2)
                runs.setdefault(f"{kind}, {executor}", []).append(run)
                tell(f"{number}: {kind}, {executor}: {run}")
    medians = {}
    for name, each in runs.items():
        medians[name] = {
            "ms_per_job": statistics.median(run["ms_per_job"] for run in each),
            "round_trip_p50_ms": statistics.median(run["round_trip_ms"]["p50"] for run in each),
        }
        if "against_bare_celery" in each[0]:
            medians[name]["against_bare_celery"] = statistics.median(run["against_bare_celery"] for run in each)
            medians[name]["round_trip_parts_ms"] = {
                part: statistics.median(run["round_trip_parts_ms"][part] for run in each) for part in Trip._fields
            }
            medians[name]["cpu_ms_per_job"] = {
                role: statistics.median(run["cpu_ms_per_job"][role] for run in each)
                for role in each[0]["cpu_ms_per_job"]
            }
    return {"medians": medians, "runs": runs}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="an interpreter that has celery, redis and colmena")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--singles", type=int, default=200)
    parser.add_argument("--growth", type=int, nargs="*", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--ledgers", nargs="*", default=["sqlite", "postgresql"])
    parser.add_argument("--executors", nargs="*", default=["ledger", "celery"])
    parser.add_argument("--no-busy", action="store_true", help="without the 200 GFN1 jobs")
    parser.add_argument("--rounds", type=int, default=0, help="only bare Celery and ours, so many times in turns")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    found: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
        "load_average": [round(x, 1) for x in os.getloadavg()],
        "peers": {},
        "ours": {},
        "growth": {},
    }

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201

    with tempfile.TemporaryDirectory(prefix="sciagent-orchestration-") as name, ExitStack() as stack:
        env = Environment(Path(name), stack)
        if given.rounds:
            found = {key: found[key] for key in ("at", "load_average")} | alternated(env, given, tell)
            given.growth = []
            given.no_busy = True
        for what in ("celery", "pool", "colmena") if given.peers and not given.rounds else ():
            found["peers"][what] = peer(what, given.peers, env.valkey.port, given.jobs, given.singles)
            tell(f"{what}: {found['peers'][what]}")
        for kind in given.ledgers if not given.rounds else ():
            for executor in given.executors:
                found["ours"][f"{kind}, {executor}"] = one = ours(env, kind, executor, given.jobs, given.singles)
                tell(f"{kind}, {executor}: {one}")
        if not given.no_busy:
            found["busy"] = {}
            for kind in given.ledgers:
                found["busy"][f"{kind}, {given.executors[-1]}"] = one = busy(env, kind, given.executors[-1])
                tell(f"200 GFN1 jobs, {kind}: {one}")
        for kind in given.ledgers:
            for rows in given.growth:
                one = ours(env, kind, given.executors[-1], given.jobs, given.singles // 2, rows)
                found["growth"][f"{kind}, {rows} rows"] = one
                tell(f"{kind}, {rows} rows: {one}")
    text = json.dumps(found, indent=1)
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
