"""How long the pages take with many candidates and many readers: `python -m benchmarks.web.run -o results.json`."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import sqlalchemy as sa

from benchmarks.web.readers import THINK
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.people import Role
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import persons, sessions_and_tokens
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
    made = create_or_open(ledger, parse_spec(LAB, base=folder), LAB, "benchmark").built
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
        secret, _ = sessions_and_tokens.create(connection, "carla", person.id, sessions_and_tokens.AccessKind.SESSION)
    ledger.close()
    return secret


def driven(url: str, folder: Path, number: int, n: int) -> Sequence[float]:
    """The times at which n verifications of a campaign ended, driven in this process. number: each campaign has
    settings of its own, since known evidence would be reused."""
    ledger = Ledger(url, artifacts=folder / "artifacts")
    settings = f"{{salt: {number + 1}}}"
    built = open_campaign(
        ledger, f"driven{number}", folder, verifier="noop.nothing", molecules=alcohols(n), settings=settings
    )
    with Driver(built) as driver:
        driver.run()
    with ledger.read() as connection:
        a = t.attempt.c
        query = sa.select(a.ended_at).where(a.campaign_id == built.row.id, a.job_id.is_not(None)).order_by(a.ended_at)
        ended = [at.timestamp() for at in connection.execute(query).scalars()]
    ledger.close()
    return ended


@contextmanager
def readers(address: str, cookie: str, keys: Path, users: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Readers in a process of their own, which ends with the block."""
    command = [sys.executable, "-m", "benchmarks.web.readers", address, cookie, str(keys), str(users), str(seconds)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
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


def beside(
    drive: Callable[[int], Sequence[float]], process: subprocess.Popen[str], campaigns: int, phase: float
) -> dict[str, Any]:
    """The speed of driving with readers, as a ratio to that without, which is the mean of the phases before and after.

    drive: a campaign by its number; the ends of its jobs are returned. phase: seconds in which readers rest or read.
    """
    pairs: list[tuple[float, float]] = []
    for number in range(campaigns):
        marks: list[tuple[float, bool]] = []
        with turns(process, phase, marks):
            ends = drive(number)
        whole = [(at, is_reading) for at, is_reading in marks if ends[0] <= at and at + phase <= ends[-1]]
        speeds = [(sum(at <= end < at + phase for end in ends) / phase, is_reading) for at, is_reading in whole]
        for (before, _), (speed, is_reading), (after, _) in zip(speeds, speeds[1:], speeds[2:], strict=False):
            if is_reading:
                pairs.append(((before + after) / 2, speed))
    ratios = [with_readers / alone for alone, with_readers in pairs]
    spread = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
    return {
        "phase_seconds": phase,
        "jobs_a_second": [[round(alone, 2), round(with_readers, 2)] for alone, with_readers in pairs],
        "ratio": round(statistics.mean(ratios), 3),
        "standard_error": round(spread / len(ratios) ** 0.5, 3),
    }


@contextmanager
def turns(process: subprocess.Popen[str], phase: float, marks: list[tuple[float, bool]]) -> Iterator[None]:
    """Readers who rest and read in turn within the block. marks: gets each beginning, and whether they read."""
    done = threading.Event()

    def take() -> None:
        assert process.stdin is not None
        for is_reading in itertools.cycle((False, True)):
            process.stdin.write("on\n" if is_reading else "off\n")
            process.stdin.flush()
            marks.append((time.time(), is_reading))
            if done.wait(phase):
                return

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--seconds", type=float, default=60.0, help="of reading, for each number of users")
    parser.add_argument("--jobs", type=int, default=3500, help="of each driven campaign")
    parser.add_argument("--campaigns", type=int, default=3, help="that are driven beside readers")
    parser.add_argument("--phase", type=float, default=5.0, help="seconds in which readers rest, or read, meanwhile")
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
            with readers(address, cookie, keys, given.users[0], 3600.0) as process:
                result["driver"] = beside(
                    lambda number: driven(server.url, folder, number, given.jobs), process, given.campaigns, given.phase
                )
    text = json.dumps(result, indent=2)
    sys.stdout.write(text + "\n")
    if given.output:
        given.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
