"""`kill -9` at random moments: what was recorded stays, nothing is counted twice, no process is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from tests.support.campaigns import environment, sciagent, write_campaign

KILLS = 4
WORKERS = 2
MARK = "SCIAGENT_TEST_MARK"


def rows(ledger: Ledger) -> dict[str, tuple[Any, ...]]:
    """Evidence by key: outcome and values."""
    with ledger.read() as connection:
        found: dict[str, tuple[Any, ...]] = {
            key: (outcome, {}) for key, outcome in connection.execute(sa.select(t.evidence.c.key, t.evidence.c.outcome))
        }
        query = (
            sa.select(t.evidence.c.key, t.property_.c.name, t.quantity.c.value)
            .join(t.quantity, t.quantity.c.evidence_id == t.evidence.c.id)
            .join(t.property_, t.property_.c.id == t.quantity.c.property_id)
        )
        for key, name, value in connection.execute(query):
            found[key][1][name] = value
    return found


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def assert_nothing_left(mark: str) -> None:
    end = time.monotonic() + 20
    while left := marked(mark):
        assert time.monotonic() < end, f"still running: {[(p.pid, p.cmdline()) for p in left]}"
        time.sleep(0.1)


def disturb(folder: Path, file: Path, url: str, rng: random.Random, after_kill: Any) -> int:
    """Some kills, each of the whole process group, each followed by a resume; the last run goes to its end."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "sciagent"]
    arguments = ["run", str(file), "--ledger", url, "--quiet"]
    kills = 0
    while True:
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            env=environment(**{MARK: mark}),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            # the first second goes into imports; a kill in there is tried as well
            _, stderr = process.communicate(timeout=rng.uniform(1.0, 4.5) if kills < KILLS else 240)
            assert process.returncode in (0, 3), stderr.decode()
            if kills >= KILLS:
                break
        except subprocess.TimeoutExpired:
            pass
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.stderr is not None
        process.stderr.close()
        kills += 1
        assert_nothing_left(mark)
        after_kill()
        if campaign_exists(url):
            arguments = ["resume", file.stem, "--ledger", url, "--quiet"]
    assert_nothing_left(mark)
    return kills


def campaign_exists(url: str) -> bool:
    ledger = Ledger(url)
    try:
        with ledger.read() as connection:
            return bool(campaigns.names(connection))
    finally:
        ledger.close()


def books(ledger: Ledger, name: str) -> dict[str, Any]:
    with ledger.read() as connection:
        row = campaigns.get(connection, name)
        jobs = connection.execute(sa.select(t.job.c.id, t.job.c.state, t.job.c.attempts)).all()
        lost = campaign_counts_and_remarks.count(
            connection, t.attempt, t.attempt.c.state == "lost", t.attempt.c.job_id.is_not(None)
        )
        running = campaign_counts_and_remarks.count(connection, t.attempt, t.attempt.c.state == "running")
        return {
            "status": campaign_counts_and_remarks.counts(connection, row),
            "jobs": jobs,
            "lost": lost,
            "running": running,
        }


def check_books(found: dict[str, Any], kills: int) -> None:
    assert found["running"] == 0, "an attempt that nobody runs is still called running"
    assert found["lost"] <= kills * 2 * WORKERS, "each worker runs one job, and one more waits for it"
    assert all(state in ("done", "failed") for _, state, _ in found["jobs"])
    assert found["status"].rungs[-1].done <= 5, "the budget by count was overrun"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, ...]]:
    folder = tmp_path_factory.mktemp("calm")
    file = write_campaign(folder, workers=WORKERS)
    sciagent("run", str(file), "--ledger", "calm.db", "--quiet", "--no-report", cwd=folder)
    ledger = Ledger(str(folder / "calm.db"))
    found = rows(ledger)
    ledger.close()
    return found


@pytest.mark.parametrize(
    "backend",
    [pytest.param("sqlite", marks=pytest.mark.long), pytest.param("postgresql", marks=pytest.mark.slow)],
    indirect=True,
)
def test_screen_and_exhaustive_end_with_the_same_evidence(
    tmp_path: Path, ledger_url: str, undisturbed: dict[str, tuple[Any, ...]]
) -> None:
    file = write_campaign(tmp_path, workers=WORKERS)
    sciagent("db", "upgrade", "--ledger", ledger_url, cwd=tmp_path)
    kills = disturb(tmp_path, file, ledger_url, random.Random(20), lambda: None)
    ledger = Ledger(ledger_url)
    found = rows(ledger)
    assert found.keys() == undisturbed.keys()
    for key, (outcome, values) in undisturbed.items():
        assert found[key][0] == outcome
        # a DFT that goes on from its checkpoint starts elsewhere; its values repeat within 5e-5 eV and 1e-4 D
        assert found[key][1] == pytest.approx(values, rel=1e-6, abs=2e-4)
    check_books(books(ledger, "small"), kills)
    assert len(undisturbed) >= 40 and kills == KILLS
    ledger.close()


@pytest.mark.long
@pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_evolve_keeps_every_row_that_was_recorded(tmp_path: Path, ledger_url: str) -> None:
    file = write_campaign(
        tmp_path, name="evolving", evolve=True, scheduler="thresholds", proposals=30, dft=3, workers=WORKERS
    )
    sciagent("db", "upgrade", "--ledger", ledger_url, cwd=tmp_path)
    snapshots: list[dict[str, tuple[Any, ...]]] = []

    def snapshot() -> None:
        ledger = Ledger(ledger_url)
        snapshots.append(rows(ledger))
        ledger.close()

    kills = disturb(tmp_path, file, ledger_url, random.Random(7), snapshot)
    ledger = Ledger(ledger_url)
    final = rows(ledger)
    for before in snapshots:
        assert all(final.get(key) == value for key, value in before.items()), "a recorded row is gone or has changed"
    assert len(final) > len(snapshots[0])
    check_books(books(ledger, "evolving"), kills)
    ledger.close()
