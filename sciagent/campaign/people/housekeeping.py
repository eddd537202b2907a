"""Finds and removes files that are not needed: unreferenced artifacts, folders of dead workers, old artifacts.

No row is removed: the artifact row of a file that was removed for its age stays, and `artifact_removal` says who
removed it, when and why. Files younger than an hour are kept, since a driver stores a file before the transaction that
refers to it.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.execution.worker.checkpoints import scratch_of
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs

YOUNG_SECONDS = 3600.0
FOREIGN_SECONDS = 7 * 86400.0  # nobody can tell from here whether a process of another host lives
CHUNK = 500
_SHA = re.compile(r"[0-9a-f]{62}")
_WORKER = re.compile(r"worker-(?P<host>[A-Za-z0-9._]+)-(?P<pid>\d+)-.+")


@dataclass(frozen=True)
class Waste:
    """Something that can be removed."""

    kind: str
    """unnamed | partial | old | worker | checkpoint."""
    path: Path
    size: int
    """In bytes."""
    why: str
    sha256: str | None = None
    """Hash of an artifact; None for anything else."""


@dataclass(frozen=True)
class StoredFiles:
    """Number of files in the artifact store."""

    named: int
    """Files that an artifact row refers to."""
    unnamed: int
    """Files without a row."""


def find_waste(ledger: Ledger, keep_days: float | None, now: float | None = None) -> tuple[list[Waste], StoredFiles]:
    """What can be removed. keep_days: also artifacts of older evidence, except that of hits; None: no artifact for
    its age."""
    now = time.time() if now is None else now
    root = ledger.artifacts.root
    scratch = scratch_of(ledger.artifacts)
    waste, named, unnamed = [], 0, 0
    for batch in _batches(_stored(root)):
        with ledger.read() as connection:
            known = _named_hashes(connection, [sha for sha, _ in batch])
            old = _old_hashes(connection, sorted(known), keep_days, now) if keep_days is not None else set()
        for sha256, path in batch:
            size, age = _size_and_age(path, now)
            named += sha256 in known
            unnamed += sha256 not in known
            if age < YOUNG_SECONDS:
                continue
            if sha256 not in known:
                waste.append(Waste("unnamed", path, size, "no evidence names it", sha256))
            elif sha256 in old:
                waste.append(Waste("old", path, size, f"its evidence is older than {keep_days:g} days", sha256))
    for path in root.glob(".incoming-*") if root.is_dir() else ():
        size, age = _size_and_age(path, now)
        if age >= YOUNG_SECONDS:
            waste.append(Waste("partial", path, size, "a write that was killed half way"))
    waste += _workers(scratch, now)
    waste += _checkpoints(ledger, scratch / "checkpoints", now)
    return waste, StoredFiles(named, unnamed)


def remove_waste(ledger: Ledger, waste: Sequence[Waste], who: str, why: str) -> tuple[int, int]:
    """Remove these things; returns how many were removed and their size in bytes. Whatever came into use since is
    kept."""
    n = size = 0
    for item in waste:
        if item.sha256 is None:
            gone = _remove_path(item.path)
        else:
            gone = _remove_artifact(ledger, item, who, why)
        n += gone
        size += item.size if gone else 0
    return n, size


def _remove_path(path: Path) -> bool:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return not path.exists()


def _remove_artifact(ledger: Ledger, item: Waste, who: str, why: str) -> bool:
    """Rename the file, then look again: it is put back if it is young or a row refers to it by now."""
    assert item.sha256 is not None
    aside = item.path.with_name(f".going-{item.path.name}")
    try:
        item.path.rename(aside)
    except FileNotFoundError:
        return False
    _, age = _size_and_age(aside, time.time())
    with ledger.begin() as connection:
        wanted = age < YOUNG_SECONDS or (
            item.kind == "unnamed" and item.sha256 in _named_hashes(connection, [item.sha256])
        )
        if not wanted and item.kind == "old" and not _removed(connection, item.sha256):
            values = {"sha256": item.sha256, "size": item.size, "who": who[:200], "why": why, "at": db_now(connection)}
            connection.execute(t.artifact_removal.insert().values(values))
    if wanted:
        aside.replace(item.path)
        return False
    aside.unlink(missing_ok=True)
    return True


def _stored(root: Path) -> Iterator[tuple[str, Path]]:
    """(SHA-256, path) of every file of the store. A file that an interrupted removal had renamed is put back first."""
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if not (folder.is_dir() and re.fullmatch(r"[0-9a-f]{2}", folder.name)):
            continue
        for path in folder.iterdir():
            if path.name.startswith(".going-") and not path.with_name(path.name.removeprefix(".going-")).exists():
                path = path.replace(path.with_name(path.name.removeprefix(".going-")))
            if _SHA.fullmatch(path.name):
                yield folder.name + path.name, path


def _batches(pairs: Iterator[tuple[str, Path]]) -> Iterator[list[tuple[str, Path]]]:
    batch: list[tuple[str, Path]] = []
    for pair in pairs:
        batch.append(pair)
        if len(batch) == CHUNK:
            yield batch
            batch = []
    if batch:
        yield batch


def _named_hashes(connection: Connection, hashes: Sequence[str]) -> set[str]:
    a = t.artifact.c
    return set(connection.execute(sa.select(a.sha256).where(a.sha256.in_(hashes)).distinct()).scalars())


def _old_hashes(connection: Connection, hashes: Sequence[str], keep_days: float, now: float) -> set[str]:
    """Hashes whose evidence is all older, and of which no candidate is a hit in any campaign."""
    a, e, c, cc = t.artifact.c, t.evidence.c, t.campaign.c, t.campaign_candidate.c
    limit = datetime.fromtimestamp(now, UTC) - timedelta(days=keep_days)
    is_hit = sa.exists(
        sa.select(sa.literal(1))
        .select_from(t.campaign.join(t.campaign_candidate, cc.campaign_id == c.id))
        .where(cc.candidate_id == e.candidate_id, cc.is_hit == sa.true())
    )
    query = (
        sa.select(a.sha256, sa.func.max(e.at), sa.func.max(sa.case((is_hit, 1), else_=0)))
        .join(t.evidence, e.id == a.evidence_id)
        .where(a.sha256.in_(hashes))
        .group_by(a.sha256)
    )
    return {sha256 for sha256, latest, hit in connection.execute(query) if not hit and latest < limit}


def _removed(connection: Connection, sha256: str) -> bool:
    r = t.artifact_removal.c
    return connection.execute(sa.select(r.id).where(r.sha256 == sha256).limit(1)).first() is not None


def _workers(scratch: Path, now: float) -> Iterator[Waste]:
    """Folders of workers whose process has ended."""
    here = re.sub("[^A-Za-z0-9.]", "_", socket.gethostname())
    for folder in scratch.glob("worker-*") if scratch.is_dir() else ():
        match = _WORKER.fullmatch(folder.name)
        if match is None or not folder.is_dir():
            continue
        size, age = _size_and_age(folder, now)
        if match["host"] == here:
            if not psutil.pid_exists(int(match["pid"])):
                yield Waste("worker", folder, size, f"process {match['pid']}, which worked there, is gone")
        elif age >= FOREIGN_SECONDS:
            yield Waste("worker", folder, size, f"untouched for {age / 86400:.0f} days by {match['host']}")


def _checkpoints(ledger: Ledger, folder: Path, now: float) -> Iterator[Waste]:
    """Checkpoints of jobs that have ended or are unknown to the ledger."""
    places = [path for path in folder.iterdir() if re.fullmatch(r"[0-9a-f]{64}", path.name)] if folder.is_dir() else []
    for start in range(0, len(places), CHUNK):
        chunk = places[start : start + CHUNK]
        with ledger.read() as connection:
            live = jobs.live_keys(connection, {path.name for path in chunk})
        for path in chunk:
            size, age = _size_and_age(path, now)
            if path.name not in live and age >= YOUNG_SECONDS:
                yield Waste("checkpoint", path, size, "its job is over")


def _size_and_age(path: Path, now: float) -> tuple[int, float]:
    """Size in bytes, and seconds since the last change; (0, 0.0) if the path no longer exists."""
    try:
        if not path.is_dir():
            status = path.stat()
            return status.st_size, now - status.st_mtime
        size, latest = 0, path.stat().st_mtime
        for parent, _, names in os.walk(path):
            for name in names:
                status = (Path(parent) / name).lstat()
                size, latest = size + status.st_size, max(latest, status.st_mtime)
        return size, now - latest
    except FileNotFoundError:
        return 0, 0.0
