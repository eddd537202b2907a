"""The benchmark of local execution runs, in small, and measures what it says."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "local_execution"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crowd") / "crowd.db"
    script(FOLDER / "big_ledger.py", str(path), "500")
    return path


def script(*command: object) -> None:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_invented_ledger_is_whole(crowd: Path) -> None:
    with closing(sqlite3.connect(crowd)) as db:
        counts = {
            table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("candidate", "campaign_candidate", "proposal", "evidence", "quantity", "job", "spend")
        }
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert counts == {
        "candidate": 500,
        "campaign_candidate": 500,
        "proposal": 500,
        "evidence": 550,
        "quantity": 550,
        "job": 50,
        "spend": 50,
    }


@pytest.mark.long
def test_every_job_is_counted_and_the_profile_is_told(crowd: Path, tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    script(FOLDER / "run.py", "--jobs", 40, "--repeats", 1, "--gfn2", 0, "--big", crowd, "-o", output)
    found = json.loads(output.read_text())
    [one] = found["rounds"]
    measured = [
        one[f"{where}.noop.{name}"] for where in ("fresh", "crowded") for name in ("together", "nothing", "rdkit")
    ]
    for run in (*measured, found["in_a_crowded_campaign"], found["profiled"]):
        assert 0 < run["jobs"] <= 40 and run["ms"] > 0
        assert run["cpu_ms"]["all"] == pytest.approx(sum(run["cpu_ms"][who] for who in ("driver", "zygotes", "jobs")))
    assert all(one[name] > 0 for name in ("sqlite_queue_ms", "process_pool_ms", "bare_forks_ms"))
    assert any("sqlite3.Cursor" in line for line in found["profile"])
