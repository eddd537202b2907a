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
from sciagent.store.database.bulk import among
from sciagent.store.database.clock import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs

YOUNG_SECONDS = 3600.0
LEAST_AGE = {"worker": 0.0, "foreign": 7 * 86400.0}
"""In seconds, by kind. Nobody can tell from here whether a process of another host lives."""
_SHA = re.compile(r"[0-9a-f]{62}")
_KEY = re.compile(r"[0-9a-f]{64}")
_WORKER = re.compile(r"worker-(?P<host>[A-Za-z0-9._]+)-(?P<pid>\d+)-.+")


@dataclass(frozen=True)
class Waste:
    """Something that can be removed."""

    kind: str
    """unnamed | partial | old | worker | foreign | checkpoint."""
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
    files = dict(_stored(ledger.artifacts.root))
    with ledger.read() as connection:
        named = _named_hashes(connection, sorted(files))
        old = set() if keep_days is None else _old_hashes(connection, sorted(named), keep_days, now)
    unneeded = [("unnamed", path, "no evidence names it", sha256) for sha256, path in files.items()]
    unneeded = [item for item in unneeded if item[-1] not in named]
    unneeded += [("old", files[sha], f"its evidence is older than {keep_days:g} days", sha) for sha in sorted(old)]
    waste = [
        Waste(kind, path, size, why, sha256)
        for kind, path, why, sha256 in [*unneeded, *_others(ledger)]
        for size, age in [_size_and_age(path, now)]
        if age >= LEAST_AGE.get(kind, YOUNG_SECONDS)
    ]
    return waste, StoredFiles(len(named), len(files) - len(named))


def remove_waste(ledger: Ledger, waste: Sequence[Waste], who: str, why: str) -> tuple[int, int]:
    """Remove these things; returns how many were removed and their size in bytes. Whatever came into use since is
    kept."""
    removed = [item.size for item in waste if _remove(ledger, item, who, why)]
    return len(removed), sum(removed)


def _remove(ledger: Ledger, item: Waste, who: str, why: str) -> bool:
    if item.sha256 is not None:
        return _remove_artifact(ledger, item, item.sha256, who, why)
    if item.path.is_dir():
        shutil.rmtree(item.path, ignore_errors=True)
    else:
        item.path.unlink(missing_ok=True)
    return not item.path.exists()


def _remove_artifact(ledger: Ledger, item: Waste, sha256: str, who: str, why: str) -> bool:
    """Rename the file, then look again: it is put back if it is young or a row refers to it by now."""
    aside = item.path.with_name(f".going-{item.path.name}")
    try:
        item.path.rename(aside)
    except FileNotFoundError:
        return False
    _, age = _size_and_age(aside, time.time())
    with ledger.begin() as connection:
        wanted = age < YOUNG_SECONDS or (item.kind == "unnamed" and sha256 in _named_hashes(connection, [sha256]))
        removed = sa.select(sa.exists().where(t.artifact_removal.c.sha256 == sha256))
        if not wanted and item.kind == "old" and not connection.execute(removed).scalar():
            values = {"sha256": sha256, "size": item.size, "who": who[:200], "why": why, "at": db_now(connection)}
            connection.execute(t.artifact_removal.insert().values(values))
    if wanted:
        aside.replace(item.path)
        return False
    aside.unlink(missing_ok=True)
    return True


def _stored(root: Path) -> Iterator[tuple[str, Path]]:
    """(SHA-256, path) of every file of the store. A file that an interrupted removal had renamed is put back first."""
    for path in sorted(root.glob("[0-9a-f][0-9a-f]/*")):
        if path.name.startswith(".going-") and not path.with_name(path.name.removeprefix(".going-")).exists():
            path = path.replace(path.with_name(path.name.removeprefix(".going-")))
        if _SHA.fullmatch(path.name):
            yield path.parent.name + path.name, path


def _named_hashes(connection: Connection, hashes: Sequence[str]) -> set[str]:
    a = t.artifact.c
    return set(connection.execute(sa.select(a.sha256).where(among(connection, a.sha256, hashes)).distinct()).scalars())


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
        .where(among(connection, a.sha256, hashes))
        .group_by(a.sha256)
    )
    return {sha256 for sha256, latest, hit in connection.execute(query) if not hit and latest < limit}


def _others(ledger: Ledger) -> Iterator[tuple[str, Path, str, None]]:
    """(kind, path, why, None) of half-written artifacts, folders of workers whose process has ended, and checkpoints of
    jobs that have ended or are unknown to the ledger."""
    for path in ledger.artifacts.root.glob(".incoming-*"):
        yield "partial", path, "a write that was killed half way", None
    scratch = scratch_of(ledger.artifacts)
    here = re.sub("[^A-Za-z0-9.]", "_", socket.gethostname())
    for folder in scratch.glob("worker-*/"):
        match = _WORKER.fullmatch(folder.name)
        if match and match["host"] != here:
            yield "foreign", folder, f"{match['host']} has not touched it for a week", None
        elif match and not psutil.pid_exists(int(match["pid"])):
            yield "worker", folder, f"process {match['pid']}, which worked there, is gone", None
    checkpoints = {path.name: path for path in scratch.glob("checkpoints/*") if _KEY.fullmatch(path.name)}
    with ledger.read() as connection:
        live = jobs.live_keys(connection, checkpoints.keys())
    for key in sorted(checkpoints.keys() - live):
        yield "checkpoint", checkpoints[key], "its job is over", None


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
