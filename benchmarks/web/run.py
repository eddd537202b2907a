"""How long the pages take with many candidates and many readers: `python -m benchmarks.web.run -o results.json`."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import sqlalchemy as sa

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

THINK = 2.0  # seconds, on the average, that a reader looks at a page
CHUNK = 50_000
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


@dataclass
class Times:
    """Milliseconds of each page, and the ages of figures in seconds."""

    pages: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ages: list[float] = field(default_factory=list)
    faults: int = 0


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


def read(address: str, cookie: str, keys: Sequence[str], users: int, seconds: float, told: Times) -> None:
    """Readers who look at one page after another, each in its own browser."""
    until = time.monotonic() + seconds

    def look(seed: int) -> None:
        chance = random.Random(seed)
        client = httpx2.Client(base_url=address, cookies={"sciagent": cookie}, timeout=60)
        time.sleep(chance.expovariate(1 / THINK))  # people do not come all at once
        tasks = re.findall(r'class="task" href="(/tasks/\d+)"', client.get("/tasks").text)
        while time.monotonic() < until:
            name, path = chance.choice(
                (
                    ("list", "/tasks"),
                    ("task", chance.choice(tasks)),
                    ("campaign", f"/campaigns/{NAME}"),
                    ("candidates", f"/campaigns/{NAME}/candidates?after={chance.randrange(len(keys) * 1000)}"),
                    ("candidate", f"/campaigns/{NAME}/candidates/{chance.choice(keys)}"),
                )
            )
            begun = time.perf_counter()
            reply = client.get(path)
            told.pages[name].append(1000 * (time.perf_counter() - begun))
            told.faults += reply.status_code != 200
            if name == "campaign" and (at := re.search(r"As of (\d\d:\d\d:\d\d) UTC", reply.text)):
                now = datetime.now(UTC)
                then = datetime.strptime(at[1], "%H:%M:%S").replace(tzinfo=UTC)
                told.ages.append((now - then.replace(year=now.year, month=now.month, day=now.day)).total_seconds())
            time.sleep(chance.expovariate(1 / THINK))

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def driven(url: str, folder: Path, number: int, n: int) -> float:
    """Jobs a second of a campaign of n no-op verifications, from the first job to the last. number: each campaign has
    molecules of its own, since known evidence would be reused."""
    ledger = Ledger(url, artifacts=folder / "artifacts")
    molecules = alcohols(200 + (number + 1) * n)[200 + number * n :]
    built = open_campaign(ledger, f"driven{number}", folder, verifier="noop.nothing", molecules=molecules)
    with Driver(built) as driver:
        driver.run()
    with ledger.read() as connection:
        a = t.attempt.c
        query = sa.select(sa.func.min(a.started_at), sa.func.max(a.ended_at), sa.func.count())
        first, last, done = connection.execute(query.where(a.campaign_id == built.row.id, a.job_id.is_not(None))).one()
    ledger.close()
    return float(done / (last - first).total_seconds())


def quantiles(values: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles([*values, *values], n=20, method="inclusive")
    return {"n": len(values), "p50_ms": round(cuts[9], 1), "p95_ms": round(cuts[18], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--seconds", type=float, default=60.0, help="of reading, for each number of users")
    parser.add_argument("--jobs", type=int, default=300, help="of each driven campaign")
    parser.add_argument("--rounds", type=int, default=3, help="of driving with and without readers")
    parser.add_argument("--beside", type=float, default=60.0, help="seconds of reading beside a driven campaign")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    result: dict[str, Any] = {"candidates": given.candidates, "think_seconds": THINK, "readers": {}}
    with tempfile.TemporaryDirectory() as name, plugin(), own_postgres(durable=False) as server:
        folder = Path(name)
        keys = build(folder, server.url, given.candidates)
        cookie = session(server.url)
        with serving(server.url, folder) as address:
            read(address, cookie, keys, 2, 5.0, Times())  # a server that has been up for a while
            for users in given.users:
                told = Times()
                read(address, cookie, keys, users, given.seconds, told)
                pages = {page: quantiles(times) for page, times in sorted(told.pages.items())}
                pages["all"] = quantiles([each for times in told.pages.values() for each in times])
                result["readers"][users] = pages | {"faults": told.faults, "oldest_figures_s": max(told.ages)}
                sys.stderr.write(f"{users} readers: {json.dumps(pages)}\n")
            alone, beside = [], []
            for number in range(given.rounds):
                alone.append(driven(server.url, folder, 2 * number, given.jobs))
                reader = threading.Thread(
                    target=read, args=(address, cookie, keys, given.users[0], given.beside, Times()), daemon=True
                )
                reader.start()
                time.sleep(3)
                beside.append(driven(server.url, folder, 2 * number + 1, given.jobs))
                reader.join()
    ratio = statistics.median(beside) / statistics.median(alone)
    result["driver"] = {"jobs_a_second_alone": alone, "beside_readers": beside, "ratio": round(ratio, 3)}
    text = json.dumps(result, indent=2)
    sys.stdout.write(text + "\n")
    if given.output:
        given.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
