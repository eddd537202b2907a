"""What is thrown away, what is not, and what is written about it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.people import remove_unneeded_files
from sciagent.report import candidate_history
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs
from sciagent.store.results import evidence
from tests.support import rows

DAY = 86400.0


def stored(ledger: Ledger, tmp_path: Path, text: str, age: float = 2 * 3600) -> str:
    """A file in the store, last touched `age` seconds ago; returns its SHA-256."""
    source = tmp_path / "source"
    source.write_text(text)
    sha256, _ = ledger.artifacts.put(source)
    then = time.time() - age
    os.utime(ledger.artifacts.path(sha256), (then, then))
    return sha256


def name(ledger: Ledger, candidate_id: int, sha256: str, **more: object) -> None:
    with ledger.begin() as connection:
        files = (("geometry.xyz", sha256, 5, "chemical/x-xyz"),)
        evidence.record(connection, [rows.new_evidence(candidate_id, rows.gap(), artifacts=files, **more)])


@pytest.fixture
def ids(ledger: Ledger) -> list[int]:
    with ledger.begin() as connection:
        row = rows.campaign(connection)
        found = rows.entered(connection, row, 3)
        candidate_standings.update(connection, row.id, found[1], is_hit=True)
        return found


def kinds(ledger: Ledger, keep_days: float | None = None, ahead: float = 0.0) -> list[str]:
    found, *_ = remove_unneeded_files.find_waste(ledger, keep_days, time.time() + ahead)
    return sorted(one.kind for one in found)


def test_what_evidence_names_stays_and_what_nothing_names_goes(ledger: Ledger, tmp_path: Path, ids: list[int]) -> None:
    named, lost = stored(ledger, tmp_path, "named"), stored(ledger, tmp_path, "lost")
    stored(ledger, tmp_path, "young", age=60)  # a driver may be about to name it
    name(ledger, ids[0], named)
    found, *counts = remove_unneeded_files.find_waste(ledger, None)
    assert [(one.kind, one.sha256, one.size) for one in found] == [("unnamed", lost, 4)]
    assert counts == [1, 2]
    assert ledger.artifacts.path(lost).exists(), "looking removes nothing"
    assert remove_unneeded_files.remove_waste(ledger, found, "ann", "tidy") == (1, 4)
    assert not ledger.artifacts.path(lost).exists() and ledger.artifacts.get(named) == b"named"
    assert kinds(ledger) == []


def test_old_files_go_but_not_those_of_hits_and_their_row_says_so(
    ledger: Ledger, tmp_path: Path, ids: list[int]
) -> None:
    plain, of_hit = stored(ledger, tmp_path, "plain", 40 * DAY), stored(ledger, tmp_path, "of a hit", 40 * DAY)
    shared = stored(ledger, tmp_path, "shared", 40 * DAY)
    for candidate_id, sha256 in zip(ids, (plain, of_hit, shared), strict=True):
        name(ledger, candidate_id, sha256)
    name(ledger, ids[1], shared, replicate=1)
    assert kinds(ledger, keep_days=30) == []  # the evidence is of today
    found, *_ = remove_unneeded_files.find_waste(ledger, 30, time.time() + 31 * DAY)
    assert [(one.kind, one.sha256) for one in found] == [("old", plain)]
    assert remove_unneeded_files.remove_waste(ledger, found, "ann", "the disk is full") == (1, 5)
    with ledger.read() as connection:
        [file] = candidate_history.evidence(connection, ids[0])[0].story.files
        assert file.sha256 == plain and file.removed is not None
        assert (file.removed.who, file.removed.why) == ("ann", "the disk is full")
        assert connection.execute(sa.select(sa.func.count()).select_from(t.artifact)).scalar() == 4
    assert remove_unneeded_files.remove_waste(ledger, found, "ann", "again") == (0, 0)


def test_a_file_that_was_stored_anew_between_the_look_and_the_removal_stays(
    ledger: Ledger, tmp_path: Path, ids: list[int]
) -> None:
    lost, named_since = stored(ledger, tmp_path, "lost"), stored(ledger, tmp_path, "named since")
    found, *_ = remove_unneeded_files.find_waste(ledger, None)
    assert len(found) == 2
    stored(ledger, tmp_path, "lost", age=0)
    name(ledger, ids[0], named_since)
    assert remove_unneeded_files.remove_waste(ledger, found, "ann", "tidy") == (0, 0)
    assert ledger.artifacts.get(lost) == b"lost" and ledger.artifacts.get(named_since) == b"named since"


def test_a_removal_that_was_killed_half_way_is_taken_up_again(ledger: Ledger, tmp_path: Path, ids: list[int]) -> None:
    sha256 = stored(ledger, tmp_path, "half")
    path = ledger.artifacts.path(sha256)
    path.rename(path.with_name(f".going-{path.name}"))
    found, *_ = remove_unneeded_files.find_waste(ledger, None)
    assert [one.sha256 for one in found] == [sha256]
    partial = ledger.artifacts.root / ".incoming-abc"
    partial.write_text("x")
    os.utime(partial, (1, 1))
    assert kinds(ledger) == ["partial", "unnamed"]


def test_folders_of_dead_workers_go_and_those_of_living_ones_stay(ledger: Ledger) -> None:
    scratch = remove_unneeded_files.scratch_of(ledger.artifacts)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    host = socket.gethostname().replace("-", "_")
    for pid in (child.pid, os.getpid()):
        folder = scratch / f"worker-{host}-{pid}-abc"
        folder.mkdir(parents=True)
        (folder / "big").write_bytes(b"0" * 100)
    (scratch / "worker-elsewhere-1-abc").mkdir()
    (scratch / "something").mkdir()
    found, *_ = remove_unneeded_files.find_waste(ledger, None)
    assert [(one.kind, one.path.name.split("-")[2], one.size) for one in found] == [("worker", str(child.pid), 100)]
    later, *_ = remove_unneeded_files.find_waste(ledger, None, time.time() + 8 * DAY)
    assert sorted(one.path.name.split("-")[1] for one in later) == sorted(["elsewhere", host])
    remove_unneeded_files.remove_waste(ledger, found, "ann", "tidy")
    assert not found[0].path.exists() and (scratch / "something").exists()


def test_checkpoints_of_jobs_that_are_over_go(ledger: Ledger, ids: list[int]) -> None:
    folder = remove_unneeded_files.scratch_of(ledger.artifacts) / "checkpoints"
    with ledger.begin() as connection:
        rung = connection.execute(sa.select(t.rung.c.id).limit(1)).scalar_one()
        for number, key in enumerate(("a" * 64, "b" * 64)):
            [made] = jobs.create_many(connection, [jobs.NewJob(1, rung, ids[number], 0, key, 0.0)])
            if number:
                connection.execute(sa.update(t.job).where(t.job.c.id == made).values(state="done"))
    for key in ("a" * 64, "b" * 64, "c" * 64):
        (folder / key).mkdir(parents=True)
        (folder / key / "scf.chk").write_bytes(b"0" * 10)
    found, *_ = remove_unneeded_files.find_waste(ledger, None, time.time() + 7.1 * 86400)
    assert sorted(one.path.name[0] for one in found) == ["b", "c"]  # a waits; c belongs to no job
    found, *_ = remove_unneeded_files.find_waste(ledger, None, time.time() + 6.9 * 86400)
    assert found == [], "a limit may be raised yet"
    assert kinds(ledger) == []  # and all are young
