"""Campaigns whose jobs run elsewhere: a driver that offers, and workers in this process or in others."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open, open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.execution.executor_wakes_workers import Executor
from sciagent.execution.polling_worker import PollingWorker
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from tests.support.campaigns import environment

TEXT = """
campaign: {name}
subject: molecule
objectives: [{{property: logp, max: 5}}]
ladder:
  - rung: remote
    verifier: {verifier}
    settings: {settings}
    limits: {limits}
    resources: {resources}
goal: {{kind: graded}}
budget: {budget}
proposer: {{kind: screen, file: molecules.smi, batch: {batch}}}
scheduler: {{kind: exhaustive}}
workers: 2
"""


def molecules(n: int) -> list[str]:
    """n different ethers and alcohols, at most 4,700."""
    ethers = [f"{'C' * a}O{'C' * b}" for a in range(40) for b in range(a + 1) if 0 < a + b < 60]
    diethers = [f"{'C' * a}O{'C' * b}O{'C' * c}" for a in range(20) for b in range(1, 20) for c in range(a + 1)]
    found = [*ethers, *diethers]
    assert n <= len(found)
    return found[:n]


def list_of_folder(folder: Path) -> dict[str, str]:
    """Writes the list with which a dispatcher of a shared ledger reads the files of a folder. Returns the variable."""
    path = folder / "allow.yaml"
    path.write_text(f"folders: [{folder}]\n", encoding="utf-8")
    path.chmod(0o644)
    return {"SCIAGENT_ALLOW_FILE": str(path)}


def written(
    ledger: Ledger,
    folder: Path,
    smiles: list[str],
    *,
    settings: str = "{}",
    limits: str = "{wall_seconds: 60}",
    budget: str = "{core_seconds: 100000}",
    name: str = "elsewhere",
    batch: int = 100,
    resources: str = "{}",
    verifier: str = "bad.remote",
) -> Built:
    """A campaign of one paid rung, entered into the ledger."""
    (folder / "molecules.smi").write_text("\n".join(smiles) + "\n")
    filled = {"settings": settings, "limits": limits, "budget": budget, "name": name, "batch": batch}
    text = TEXT.format(**filled, resources=resources, verifier=verifier)
    return create_or_open(ledger, parse_spec(text, base=folder), text, "test").built


@contextmanager
def working(
    ledger: Ledger,
    folder: Path,
    slots: int = 2,
    name: str = "here",
    resources: dict[str, int] | None = None,
    **more: Any,
) -> Iterator[PollingWorker]:
    """Workers in threads of this process."""
    new = NewWorker(name, "host", 1, "ledger", ("simulation", "high_fidelity"), slots, 8000, None, resources or {})
    station = PollingWorker(ledger, new, folder / f"scratch-{name}", **more)
    thread = threading.Thread(target=station.serve)
    thread.start()
    try:
        yield station
    finally:
        station.request_stop()
        thread.join(timeout=60)
        assert not thread.is_alive()


def worker(
    ledger: Ledger, folder: Path, *arguments: str, log: str = "worker.log", **env: str
) -> subprocess.Popen[bytes]:
    """`sciagent worker` in a process, and a session, of its own."""
    command = [sys.executable, "-m", "sciagent", "worker", "--ledger", ledger.url.render_as_string(False), *arguments]
    with (folder / log).open("ab") as out:
        more = {"SCIAGENT_ARTIFACTS": str(ledger.artifacts.root)} | env
        return subprocess.Popen(
            command, cwd=folder, env=environment(**more), stdout=out, stderr=out, start_new_session=True
        )


def driver(built: Built) -> Driver:
    return Driver(built, executor=Executor())


def driven(built: Built, seconds: float = 120.0) -> str:
    """Drive it to its end; what the state was."""
    end = time.monotonic() + seconds
    with driver(built) as one:

        def step() -> None:
            if time.monotonic() > end:
                one.abort()

        return str(one.run(step))


def again(ledger: Ledger, name: str = "elsewhere") -> Built:
    return open_stored(ledger, name, "test").built


def counts(ledger: Ledger, column: sa.Column[str], *conditions: sa.ColumnElement[bool]) -> dict[str, int]:
    query = sa.select(column, sa.func.count()).where(*conditions).group_by(column)
    with ledger.read() as connection:
        return {str(value): int(n) for value, n in connection.execute(query)}


def until(what: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true answer. Raises AssertionError if none comes."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(0.05)
    return found


def whole(ledger: Ledger, n: int) -> None:
    """As many evidence rows as jobs, each by an attempt that is done, nothing held, nobody left waiting."""
    assert counts(ledger, t.job.c.state) == {"done": n}
    paid = t.evidence.c.verifier == "bad.remote"
    assert counts(ledger, t.evidence.c.outcome, paid) == {"ok": n}
    assert counts(ledger, t.campaign_candidate.c.standing) == {"settled": n}
    with ledger.read() as connection:
        held = sa.select(sa.func.count()).select_from(t.reservation).where(t.reservation.c.released_at.is_(None))
        assert connection.execute(held).scalar_one() == 0
        of = t.evidence.c.candidate_id
        twice = sa.select(of).where(paid).group_by(of).having(sa.func.count() > 1)
        assert connection.execute(twice).all() == []


def running(ledger: Ledger) -> list[int]:
    with ledger.read() as connection:
        return list(connection.execute(sa.select(t.job.c.id).where(t.job.c.state == "running")).scalars())


def processes(command: str) -> list[int]:
    """Those of this user whose command line ends so."""
    found = []
    for one in psutil.process_iter(["cmdline", "status"]):
        line = one.info["cmdline"] or []
        if line and line[-1].endswith(command) and one.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(one.pid)
    return found
