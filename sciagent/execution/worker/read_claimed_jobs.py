"""Claimed jobs as a worker reads them from the ledger. The messages that wake workers carry no part of a job.

A long verification has checkpoints. Each attempt has its own folder, which starts as a copy of the previous attempt's
folder. A worker that lost its lease and still writes changes only its own files; a file that nobody may write is linked
instead of copied. The fence of an attempt is a number that grows with each claim of the job.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import EvidenceKey
from sciagent.errors import LedgerError, SciagentError, UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.job_queue.leases import Claim
from sciagent.store.results import candidates
from sciagent.verification.cost_models import cost_or_none
from sciagent.verification.declarations_and_availability import interpreter_of, unavailable
from sciagent.verification.sandbox.host import Limits, Request
from sciagent.verification.verifier_contract import BaseVerifier
from sciagent.verification.verifier_registry import verifier_class

log = logging.getLogger(__name__)


def scratch_of(artifacts: ArtifactStore) -> Path:
    """The scratch folder for jobs of this ledger, beside the artifacts and on the same disk."""
    root = artifacts.root
    return root.with_name(f"{root.name.removesuffix('-artifacts')}-scratch")


def checkpoints_home(scratch: Path, evidence_key: str) -> Path:
    """The folder of the checkpoints of all attempts under this evidence key."""
    return scratch / "checkpoints" / evidence_key


def attempt_folder(scratch: Path, evidence_key: str, fence: int) -> Path:
    """Returns the folder of the attempt with this fence. A new folder is a copy of the previous attempt's, if any;
    folders of attempts before that one are removed."""
    home = checkpoints_home(scratch, evidence_key)
    folder = home / f"fence-{fence}"
    fences = [int(path.name.removeprefix("fence-")) for path in home.glob("fence-*")]
    earlier_fences = [number for number in fences if number < fence]
    if earlier_fences and not folder.exists():
        partial = home / f".{folder.name}"
        shutil.rmtree(partial, ignore_errors=True)
        previous = max(earlier_fences)
        shutil.copytree(home / f"fence-{previous}", partial, symlinks=True, copy_function=_link_or_copy)
        partial.rename(folder)  # only a complete copy gets the final name
        for number in earlier_fences:
            if number < previous:
                shutil.rmtree(home / f"fence-{number}", ignore_errors=True)
    return folder


@contextmanager
def direct_checkpoint(scratch: Path, evidence_key: str) -> Iterator[tuple[Path, ...]]:
    """Yields the checkpoint folder of a run without a job, such as one of `sciagent calc`, which a later run under this
    evidence key goes on from. Yields nothing while another process has it."""
    home = _direct_home(scratch, evidence_key)
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield ()
        else:
            yield (home / "files",)


def drop_direct_checkpoint(scratch: Path, evidence_key: str) -> None:
    """Removes the checkpoint folder of runs without a job."""
    home = _direct_home(scratch, evidence_key)
    shutil.rmtree(home, ignore_errors=True)
    with suppress(OSError):  # attempts of jobs lie there, too
        home.parent.rmdir()


def _direct_home(scratch: Path, evidence_key: str) -> Path:
    return checkpoints_home(scratch, evidence_key) / "direct"


def _link_or_copy(source: str, target: str) -> None:
    """Links a file that nobody may write, and copies any other."""
    mode = os.lstat(source).st_mode
    if stat.S_ISREG(mode) and not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        os.link(source, target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


@dataclass(frozen=True)
class Task:
    """The rung of a claimed job, with its verifier created in this process."""

    campaign_id: int
    rung_id: int
    verifier: BaseVerifier[Any]
    settings: Mapping[str, Any]
    limits: Limits
    needs: dict[str, int]
    """Amounts of the resources that a job of the rung holds while it runs, by name."""


@dataclass(frozen=True)
class ClaimedJob:
    """A job under a lease, with the data needed to run and to complete it."""

    claim: Claim
    task: Task
    candidate_id: int
    candidate: Candidate
    key: EvidenceKey
    declared: Cost | None
    """Cost that the verifier expects; None if the verifier cannot predict it."""


def request_of(jobs: Sequence[ClaimedJob], scratch: Path, cuda: str | None = None) -> Request:
    """Returns one sandbox call for jobs of one rung. scratch: folder of checkpoints. cuda: GPUs visible to the jobs."""
    task = jobs[0].task
    return Request(
        task.verifier.name,
        task.settings,
        tuple(job.candidate for job in jobs),
        task.limits,
        replicate=jobs[0].key.replicate,
        checkpoints=tuple(attempt_folder(scratch, job.key.hash, job.claim.fence) for job in jobs),
        together=len(jobs) > 1,
        cuda=cuda,
        environment=task.verifier.runs_in,
        interpreter=interpreter_of(task.verifier),
    )


class ClaimedRow(NamedTuple):
    """A claimed job as read from the ledger, before its verifier is created."""

    claim: Claim
    row: Any
    """Columns of the job, of its rung, and the campaign's name."""
    candidate: Candidate


def read_claimed(connection: Connection, claims: Sequence[Claim]) -> list[ClaimedRow]:
    """Read jobs of one rung, in the transaction that claims them. Verifiers are created later, since this takes time.

    A job whose candidate cannot be created here is left out, and its lease expires. An error would undo the claim, and
    the next worker would meet the same error.
    """
    if not claims:
        return []
    j = t.job.c
    r = t.rung.c
    c = t.campaign.c
    columns = (j.candidate_id, j.replicate, j.evidence_key, j.campaign_id, j.rung_id, c.name.label("campaign_name"))
    query = (
        sa.select(j.id, *columns, r.verifier, r.verifier_version, r.settings_hash, r.request)
        .select_from(t.job.join(t.rung, r.id == j.rung_id).join(t.campaign, c.id == j.campaign_id))
        .where(among(connection, j.id, [claim.job_id for claim in claims]))
    )
    rows = {row.id: row for row in connection.execute(query).all()}
    claimed = []
    for claim in claims:
        row = rows[claim.job_id]
        try:
            candidate = candidates.load(connection, [row.candidate_id])[row.candidate_id]
        except (SQLAlchemyError, LedgerError):  # the fault of the ledger, not of the candidate
            raise
        except Exception:  # a subject's parser may raise anything; the other jobs go on, and this one's lease expires
            log.exception("candidate %d cannot be made here", row.candidate_id)
        else:
            claimed.append(ClaimedRow(claim, row, candidate))
    return claimed


class CannotError(SciagentError):
    """This worker lacks a rung's verifier or its engine, or has another version of it. Another one may run the rung."""


class Tasks:
    """The tasks of the rungs that a worker runs. A task is created again only if its rung changed in the ledger."""

    def __init__(self) -> None:
        self._tasks: dict[int, tuple[Any, Task]] = {}  # (definition in the ledger, task) by rung

    def jobs(self, claimed: Sequence[ClaimedRow]) -> list[ClaimedJob]:
        """Returns the claimed jobs in the order given, each with a verifier created in this process. Raises CannotError
        if a verifier cannot be created here."""
        jobs = []
        for claim, row, candidate in claimed:
            task = self._task(row)
            key = task.verifier.evidence_key(candidate, row.replicate)
            if key.hash != row.evidence_key:
                raise CannotError(f"{row.verifier} gives candidate {row.candidate_id} another evidence key here")
            declared = cost_or_none(task.verifier, candidate)
            jobs.append(ClaimedJob(claim, task, row.candidate_id, candidate, key, declared))
        return jobs

    def _task(self, row: Any) -> Task:
        rung_definition = (row.verifier, row.verifier_version, row.settings_hash, row.request)
        if row.rung_id in self._tasks:
            earlier_definition, earlier_task = self._tasks[row.rung_id]
            if earlier_definition == rung_definition:
                return earlier_task
        try:
            settings = row.request["settings"]
            limits = Limits(**row.request["limits"])
            verifier = verifier_class(row.verifier)(settings)
            verifier.scope = row.campaign_name  # the name by which a verifier tells campaigns apart
            missing = unavailable(verifier)
        except UsageError as error:
            raise CannotError(str(error)) from error
        except (TypeError, KeyError, ValueError, LookupError, OSError) as error:
            raise CannotError(f"{row.verifier} does not take the settings in the ledger: {error}") from error
        if missing is not None:
            raise CannotError(f"{row.verifier}: {missing}")
        if (verifier.version, verifier.settings_hash) != (row.verifier_version, row.settings_hash):
            raise CannotError(
                f"{row.verifier} is version {verifier.version} here, the campaign {row.campaign_name} goes by version "
                f"{row.verifier_version} or other defaults; install the same sciagent and plug-ins everywhere"
            )
        needs = dict(row.request.get("resources", {}))
        task = Task(row.campaign_id, row.rung_id, verifier, settings, limits, needs)
        self._tasks[row.rung_id] = (rung_definition, task)
        return task
