"""Finds and removes unneeded files: artifacts without a row, old artifacts, folders of dead workers, checkpoints.

No artifact row is removed. The table `artifact_removal` records who removed an old file, when and why. Files younger
than an hour are kept, since a driver stores a file before the transaction that refers to it.
"""

from __future__ import annotations

import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.execution.worker.read_claimed_jobs import scratch_of
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs
from sciagent.store.lab import submissions

YOUNG_SECONDS = 3600.0  # age below which a file is kept, unless `LEAST_AGE` says otherwise
MAX_NAME = 200  # characters of a person's name in `artifact_removal`
LEAST_AGE = {"worker": 0.0, "foreign": 7 * 86400.0, "checkpoint": 7 * 86400.0}
"""Least age of a removable file in seconds, by kind. A process on another host cannot be checked, only its files; a job
that reached a limit goes on from its checkpoint once the limit is raised."""
_ARTIFACT_NAME = re.compile(r"[0-9a-f]{62}")  # a SHA-256 hash without its first two digits, which name the folder
_JOB_KEY = re.compile(r"[0-9a-f]{64}")  # evidence key of a job, the name of its checkpoint
_WORKER_FOLDER = re.compile(r"worker-(?P<host>[A-Za-z0-9._]+)-(?P<pid>\d+)-.+")


@dataclass(frozen=True)
class Waste:
    """A file or folder that can be removed."""

    kind: str
    """Artifacts: `unnamed` (without a row), `partial` (half-written) or `old`. Others: the folder of a dead `worker`,
    of a worker on another host (`foreign`), or a `checkpoint` of a job that is over."""
    path: Path
    size: int
    """Size in bytes."""
    why: str
    sha256: str | None = None
    """SHA-256 hash of a whole artifact; None for other kinds."""


def find_waste(ledger: Ledger, keep_days: float | None, now: float | None = None) -> tuple[list[Waste], int, int]:
    """Returns the removable files, the number of artifact files with a row, and the number without a row.

    keep_days: age in days above which artifacts are removable, except artifacts of hits; None: age does not matter.
    now: Unix seconds; None: the present.
    """
    now = time.time() if now is None else now
    files = dict(_stored(ledger.artifacts.root))
    with ledger.read() as connection:
        named = _named_hashes(connection, sorted(files))
        old = set() if keep_days is None else _old_hashes(connection, sorted(named), keep_days, now)
        # a file that a person attached is kept, even if an old computed file has the same content
        old -= submissions.attached(connection)
    # tuples (kind, path, reason, SHA-256), as `_others` yields them
    unneeded = [("unnamed", path, "no evidence names it", sha) for sha, path in files.items() if sha not in named]
    unneeded += [("old", files[sha], f"its evidence is older than {keep_days:g} days", sha) for sha in sorted(old)]
    waste = []
    for kind, path, why, sha256 in [*unneeded, *_others(ledger)]:
        size, age = _size_and_age(path, now)
        if age >= LEAST_AGE.get(kind, YOUNG_SECONDS):
            waste.append(Waste(kind, path, size, why, sha256))
    return waste, len(named), len(files) - len(named)


def remove_waste(ledger: Ledger, waste: Sequence[Waste], who: str, why: str) -> tuple[int, int]:
    """Removes the listed files, except those that came into use since; returns their number and total size in
    bytes."""
    removed = [item.size for item in waste if _remove(ledger, item, who, why)]
    return len(removed), sum(removed)


def _remove(ledger: Ledger, item: Waste, who: str, why: str) -> bool:
    """Removes a file or folder; returns whether it is gone."""
    if item.sha256 is not None:
        return _remove_artifact(ledger, item, item.sha256, who, why)
    if item.path.is_dir():
        shutil.rmtree(item.path, ignore_errors=True)
    else:
        item.path.unlink(missing_ok=True)
    return not item.path.exists()


def _remove_artifact(ledger: Ledger, item: Waste, sha256: str, who: str, why: str) -> bool:
    """Renames the file, checks it again, and removes it; returns whether it was removed.

    A file that is young or has a row by now is renamed back.
    """
    aside = item.path.with_name(f".going-{item.path.name}")  # nobody finds the file while it is checked
    try:
        item.path.rename(aside)
    except FileNotFoundError:
        return False
    _, age = _size_and_age(aside, time.time())
    with ledger.begin() as connection:
        is_young = age < YOUNG_SECONDS
        has_row_by_now = item.kind == "unnamed" and sha256 in _named_hashes(connection, [sha256])
        is_needed = is_young or has_row_by_now
        if not is_needed and item.kind == "old":
            query = sa.select(sa.exists().where(t.artifact_removal.c.sha256 == sha256))
            is_recorded = connection.execute(query).scalar()
            if not is_recorded:
                name = who[:MAX_NAME]
                values = {"sha256": sha256, "size": item.size, "who": name, "why": why, "at": db_now(connection)}
                connection.execute(t.artifact_removal.insert().values(values))
    if is_needed:
        aside.replace(item.path)
        return False
    aside.unlink(missing_ok=True)
    return True


def _stored(root: Path) -> Iterator[tuple[str, Path]]:
    """Yields (SHA-256, path) of every file in the store. A file that an interrupted removal renamed is renamed back."""
    for path in sorted(root.glob("[0-9a-f][0-9a-f]/*")):
        original = path.with_name(path.name.removeprefix(".going-"))
        if path.name.startswith(".going-") and not original.exists():
            path = path.replace(original)
        if _ARTIFACT_NAME.fullmatch(path.name):
            yield path.parent.name + path.name, path


def _named_hashes(connection: Connection, hashes: Sequence[str]) -> set[str]:
    """Returns the given hashes that have an artifact row, and the hashes of all files that people attached."""
    sha256 = t.artifact.c.sha256
    named = set(connection.execute(sa.select(sha256).where(among(connection, sha256, hashes)).distinct()).scalars())
    return named | submissions.attached(connection)


def _old_hashes(connection: Connection, hashes: Sequence[str], keep_days: float, now: float) -> set[str]:
    """Returns the hashes whose evidence is all older than `keep_days` and belongs to no hit of any campaign."""
    a = t.artifact.c
    e = t.evidence.c
    c = t.campaign.c
    cc = t.campaign_candidate.c
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
    """Yields (kind, path, reason, None) for half-written artifacts, folders of ended workers, and checkpoints of jobs
    that are over or not in the ledger."""
    for path in ledger.artifacts.root.glob(".incoming-*"):
        yield "partial", path, "a write that was killed half way", None
    scratch = scratch_of(ledger.artifacts)
    here = re.sub("[^A-Za-z0-9.]", "_", socket.gethostname())
    for folder in scratch.glob("worker-*/"):
        match = _WORKER_FOLDER.fullmatch(folder.name)
        if match and match["host"] != here:
            yield "foreign", folder, f"{match['host']} has not touched it for a week", None
        elif match and not psutil.pid_exists(int(match["pid"])):
            yield "worker", folder, f"process {match['pid']}, which worked there, is gone", None
    checkpoints = {path.name: path for path in scratch.glob("checkpoints/*") if _JOB_KEY.fullmatch(path.name)}
    with ledger.read() as connection:
        keys_in_use = jobs.keys_of_unfinished_jobs(connection, checkpoints.keys())
    for key in sorted(checkpoints.keys() - keys_in_use):
        yield "checkpoint", checkpoints[key], "its job ended a week ago or earlier", None


def _size_and_age(path: Path, now: float) -> tuple[int, float]:
    """Returns size in bytes and seconds since the last change; (0, 0.0) if the path does not exist."""
    try:
        statuses = [each.lstat() for each in (path, *path.rglob("*"))]
    except FileNotFoundError:
        return 0, 0.0
    size = sum(status.st_size for status in statuses if not stat.S_ISDIR(status.st_mode))
    return size, now - max(status.st_mtime for status in statuses)
