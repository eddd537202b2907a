"""What others pay for a job that does nothing, with two processes: a queue in SQLite, a process pool, a bare fork."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

WORKERS = 2
CLAIM = """UPDATE job SET state = 'running', owner = ? WHERE id = (SELECT id FROM job WHERE state = 'queued' ORDER BY id
LIMIT 1) RETURNING id"""


def sqlite_queue(path: Path, n: int) -> float:
    """ms a job: each of two processes claims a row, does nothing, and writes the result, a commit for each of the two
    (WAL, synchronous=NORMAL, as the ledger). Durable; no isolation, no limits, no evidence, no cost."""
    path.unlink(missing_ok=True)
    with closing(_open(path)) as db:
        db.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, state TEXT, owner INTEGER, result REAL)")
        db.execute("CREATE INDEX ix_job_state ON job (state, id)")
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO job (state) VALUES (?)", [("queued",)] * n)
        db.execute("COMMIT")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_serve, args=(path,)) for _ in range(WORKERS)]
    begun = time.perf_counter()
    for one in processes:
        one.start()
    for one in processes:
        one.join()
    taken = time.perf_counter() - begun
    with closing(_open(path)) as db:
        assert db.execute("SELECT count(*) FROM job WHERE state = 'done'").fetchone() == (n,)
    return 1e3 * taken / n


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    return db


def _serve(path: Path) -> None:
    with closing(_open(path)) as db:
        while True:
            db.execute("BEGIN IMMEDIATE")
            row = db.execute(CLAIM, (os.getpid(),)).fetchone()
            db.execute("COMMIT")
            if row is None:
                return
            db.execute("BEGIN IMMEDIATE")
            db.execute("UPDATE job SET state = 'done', result = ? WHERE id = ?", (_nothing(row[0]), row[0]))
            db.execute("COMMIT")


def _nothing(x: int) -> float:
    return float(x)


def process_pool(n: int) -> float:
    """ms a job through ProcessPoolExecutor(2), the pool warm. Nothing is durable, a crash ends the pool."""
    with ProcessPoolExecutor(WORKERS) as pool:
        list(pool.map(_nothing, range(64)))
        begun = time.perf_counter()
        for future in [pool.submit(_nothing, i) for i in range(n)]:
            future.result()
        return 1e3 * (time.perf_counter() - begun) / n


def bare_forks(n: int) -> float:
    """ms for each of n forks of a process that holds RDKit, two at a time: each child ends at once. The least that a
    process for each job costs on this machine."""
    from rdkit.Chem import rdinchi, rdMolDescriptors  # noqa: F401

    begun = time.perf_counter()
    parents = []
    for _ in range(WORKERS):
        pid = os.fork()
        if not pid:
            for _ in range(n // WORKERS):
                child = os.fork()
                if not child:
                    os._exit(0)
                os.waitpid(child, 0)
            os._exit(0)
        parents.append(pid)
    for pid in parents:
        os.waitpid(pid, 0)
    return 1e3 * (time.perf_counter() - begun) / n
