"""How long the pages take with many candidates and many readers: `python -m benchmarks.web.run -o results.json`."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import sqlalchemy as sa

from benchmarks.web.readers import THINK
from sciagent.campaign.core.build import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.spec.load import parse_spec
from sciagent.domain.people.roles import Role
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import accesses, persons
from tests.support.servers.postgres import own_postgres
from tests.support.servers.process import free_port

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "local_execution"))
from big_ledger import NAME, fill  # noqa: E402
from measure import alcohols, open_campaign, plugin  # noqa: E402

LAB = """
campaign: lab
subject: molecule
seed: 1
objectives: [{property: homo_lumo_gap, window: [4.0, 4.6], unit: eV}]
ladder:
  - {rung: checks, verifier: molecule.checks}
  - rung: lab
    verifier: lab.measurement
    settings: {quantities: [homo_lumo_gap], method: UV-vis onset}
    lab: {ahead: 200}
terminal: lab
goal: {kind: hits, count: 200}
budget: {lab_slots: 1000}
proposer: {kind: screen, file: lab.csv, batch: 200}
scheduler: {kind: exhaustive}
"""


def build(folder: Path, url: str, n: int) -> Sequence[str]:
    """A ledger on PostgreSQL with n made-up candidates in one campaign, and 200 tasks in another; returns some keys."""
    source = folder / "crowd.db"
    ledger = Ledger(str(source))
    built = open_campaign(ledger, NAME, folder, verifier="noop.rdkit", molecules=alcohols(1))
    ledger.close()
    fill(source, n, built.row.id, built.paid[0].id, said=True)
    subprocess.run([sys.executable, "-m", "sciagent", "db", "upgrade", "--ledger", url], check=True)
    with closing(sqlite3.connect(source)) as old, psycopg.connect(plain(url)) as new:
        new.execute("SET session_replication_role = replica")
        new.execute("SET timezone = 'UTC'")
        for table in t.metadata.sorted_tables:
            copied(old, new, table)
        keys = [row[0] for row in old.execute("SELECT key FROM candidate WHERE id % ? = 0 LIMIT 500", (n // 500,))]
    with psycopg.connect(plain(url), autocommit=True) as new:
        new.execute("ANALYZE")
    ledger = Ledger(url, artifacts=folder / "artifacts")
    (folder / "lab.csv").write_text("\n".join(["smiles", *alcohols(200)]) + "\n", encoding="utf-8")
    made, _ = create_or_open(ledger, parse_spec(LAB, base=folder), LAB, "benchmark")
    with Driver(made) as driver:
        driver.run()
    ledger.close()
    return keys


def plain(url: str) -> str:
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def copied(old: sqlite3.Connection, new: psycopg.Connection[Any], table: sa.Table) -> None:
    """Copies a table; afterwards the next id is above all that are there."""
    columns = [column.name for column in table.columns]
    named = ", ".join(f'"{name}"' for name in columns)
    new.execute(f'DELETE FROM "{table.name}"'.encode())
    with new.cursor().copy(f'COPY "{table.name}" ({named}) FROM STDIN'.encode()) as copy:
        for row in old.execute(f'SELECT {named} FROM "{table.name}"'):
            copy.write_row(row)
    if "id" in columns and table.c.id.autoincrement is True:
        last = f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), max(id)) FROM \"{table.name}\""
        new.execute(last.encode())


@contextmanager
def serving(url: str, folder: Path) -> Iterator[str]:
    """The address of `sciagent serve` in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "sciagent", "serve", "--no-dispatcher", "--port", str(port), "--ledger", url]
    environment = os.environ | {"SCIAGENT_ARTIFACTS": str(folder / "artifacts")}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                httpx2.get(f"{address}/login")
                break
            except httpx2.HTTPError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def session(url: str) -> str:
    """The cookie of a chemist."""
    ledger = Ledger(url)
    with ledger.begin() as connection:
        person = persons.by_login(connection, "carla") or persons.add(connection, "root", "carla", "Carla")
        persons.set_role(connection, "root", person.id, Role.CHEMIST, None)
        secret, _ = accesses.create(connection, "carla", person.id, accesses.AccessKind.SESSION)
    ledger.close()
    return secret


@dataclass(frozen=True)
class Driven:
    """A campaign of no-op verifications, from its first job to the last."""

    jobs_a_second: float
    cpu_ms: float
    """Milliseconds of CPU time for each job, of the driver and the processes that verify."""


def driven(url: str, folder: Path, number: int, n: int) -> Driven:
    """Drives a campaign of n verifications in this process. number: each has settings of its own, since known evidence
    would be reused."""
    ledger = Ledger(url, artifacts=folder / "artifacts")
    settings = f"{{salt: {number + 1}}}"
    built = open_campaign(
        ledger, f"driven{number}", folder, verifier="noop.nothing", molecules=alcohols(n), settings=settings
    )
    before = cpu_seconds()
    with Driver(built) as driver:
        driver.run()
    used = cpu_seconds() - before
    with ledger.read() as connection:
        a = t.attempt.c
        query = sa.select(sa.func.min(a.started_at), sa.func.max(a.ended_at), sa.func.count())
        first, last, done = connection.execute(query.where(a.campaign_id == built.row.id, a.job_id.is_not(None))).one()
    ledger.close()
    return Driven(float(done / (last - first).total_seconds()), 1000 * used / done)


def cpu_seconds() -> float:
    """CPU time of this process, and of those that it has started and that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


@contextmanager
def readers(address: str, cookie: str, keys: Path, users: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Readers in a process of their own, which ends with the block."""
    command = [sys.executable, "-m", "benchmarks.web.readers", address, cookie, str(keys), str(users), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def looked(address: str, cookie: str, keys: Path, users: int, seconds: float) -> dict[str, Any]:
    """The answers to readers who looked for some seconds."""
    with readers(address, cookie, keys, users, seconds) as process:
        told: dict[str, Any] = json.loads(process.communicate()[0])
    return told


def paired(
    drive: Callable[[], Driven], beside: Callable[[], AbstractContextManager[Any]], rounds: int
) -> dict[str, Any]:
    """Campaigns driven alone and beside readers, in turn; the second of a pair comes first in every other one."""
    told: dict[bool, list[Driven]] = {True: [], False: []}
    for number in range(rounds):
        for is_alone in (number % 2 == 0, number % 2 == 1):
            with nullcontext() if is_alone else beside():
                told[is_alone].append(drive())
    ratios = sorted(b.jobs_a_second / a.jobs_a_second for a, b in zip(told[True], told[False], strict=True))
    return {
        "alone": [vars(each) for each in told[True]],
        "beside_readers": [vars(each) for each in told[False]],
        "ratios": [round(ratio, 3) for ratio in ratios],
        "ratio": round(statistics.median(ratios), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--seconds", type=float, default=60.0, help="of reading, for each number of users")
    parser.add_argument("--jobs", type=int, default=600, help="of each driven campaign")
    parser.add_argument("--rounds", type=int, default=10, help="of driving with and without readers")
    parser.add_argument("--nice", type=int, default=0, help="priority of all that is measured; below 0 it takes root")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    os.nice(given.nice)
    result: dict[str, Any] = {"candidates": given.candidates, "think_seconds": THINK, "nice": given.nice, "readers": {}}
    with tempfile.TemporaryDirectory() as name, plugin(), own_postgres(durable=False) as server:
        folder = Path(name)
        keys = folder / "keys.txt"
        keys.write_text("\n".join(build(folder, server.url, given.candidates)), encoding="utf-8")
        cookie = session(server.url)
        with serving(server.url, folder) as address:
            looked(address, cookie, keys, 2, 5.0)  # a server that has been up for a while
            for users in given.users:
                result["readers"][users] = looked(address, cookie, keys, users, given.seconds)
                sys.stderr.write(f"{users} readers: {json.dumps(result['readers'][users])}\n")
            numbers = itertools.count()
            result["driver"] = paired(
                lambda: driven(server.url, folder, next(numbers), given.jobs),
                lambda: readers(address, cookie, keys, given.users[0], 600.0),
                given.rounds,
            )
    text = json.dumps(result, indent=2)
    sys.stdout.write(text + "\n")
    if given.output:
        given.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
