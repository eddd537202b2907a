"""What a worker has to know of a job under its lease, read from the ledger; nothing of it comes by message."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import EvidenceKey
from sciagent.errors import LedgerError, SciagentError, UsageError
from sciagent.execution.worker.checkpoints import folders_of
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.job_queue.leases import Claim
from sciagent.store.results import candidates
from sciagent.verification.contract import Verifier
from sciagent.verification.cost import cost_or_none
from sciagent.verification.registry import verifier_class
from sciagent.verification.sandbox.host import Limits, Request

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """The rung of a claimed job, as this process can run it. needs: what a job of it holds."""

    campaign_id: int
    rung_id: int
    verifier: Verifier[Any]
    settings: Mapping[str, Any]
    limits: Limits
    needs: dict[str, int]


@dataclass(frozen=True)
class ClaimedJob:
    """A job under a lease, with all that is needed to run and to complete it."""

    claim: Claim
    task: Task
    candidate_id: int
    candidate: Candidate
    key: EvidenceKey
    declared: Cost | None
    """What the verifier expects to spend; None where it cannot say it."""


def request_of(jobs: Sequence[ClaimedJob], scratch: Path, cuda: str | None = None) -> Request:
    """One call for jobs of one rung. scratch: where their checkpoints are. cuda: the GPUs that they may see."""
    task = jobs[0].task
    return Request(
        task.verifier.name,
        task.settings,
        tuple(job.candidate for job in jobs),
        task.limits,
        replicate=jobs[0].key.replicate,
        checkpoints=folders_of(scratch, ((job.key.hash, job.claim.fence) for job in jobs)),
        together=len(jobs) > 1,
        cuda=cuda,
    )


@dataclass(frozen=True)
class Asked:
    """Jobs of one rung as they stand in the ledger, with their claims, and their candidates by id. One whose candidate
    cannot be made here is not among them: nobody keeps its claim alive, and it goes the way of what is lost."""

    jobs: list[tuple[Claim, Any]]
    candidates: dict[int, Candidate]

    @property
    def claims(self) -> list[Claim]:
        return [claim for claim, _ in self.jobs]


def ask(connection: Connection, claims: Sequence[Claim]) -> Asked:
    """What the ledger says of jobs of one rung; in the transaction that claims them, and so nothing is made of it yet:
    a verifier may take its time."""
    if not claims:
        return Asked([], {})
    j, r, c = t.job.c, t.rung.c, t.campaign.c
    query = (
        sa.select(
            j.id,
            j.candidate_id,
            j.replicate,
            j.kills,
            j.evidence_key,
            j.campaign_id,
            j.rung_id,
            r.verifier,
            r.verifier_version,
            r.settings_hash,
            r.request,
            c.name,
        )
        .select_from(t.job.join(t.rung, r.id == j.rung_id).join(t.campaign, c.id == j.campaign_id))
        .where(among(connection, j.id, [one.job_id for one in claims]))
    )
    rows = {row.id: row for row in connection.execute(query).all()}
    loaded, broken = _load(connection, [row.candidate_id for row in rows.values()])
    mine = [(claim, rows[claim.job_id]) for claim in claims]
    return Asked([(claim, row) for claim, row in mine if row.candidate_id not in broken], loaded)


def _load(connection: Connection, ids: Sequence[int]) -> tuple[dict[int, Candidate], set[int]]:
    """Candidates, and those that cannot be made: an error here would undo the claim, and whoever asks next would meet
    it again, for ever."""
    try:
        return candidates.load(connection, ids), set()
    except (SQLAlchemyError, LedgerError):
        raise
    except Exception:
        log.exception("among candidates %s is one that cannot be made here", ids)
        if len(ids) == 1:
            return {}, set(ids)
    each = [_load(connection, [one]) for one in ids]
    return {k: v for found, _ in each for k, v in found.items()}, set().union(*(broken for _, broken in each))


class CannotError(SciagentError):
    """This worker cannot run a rung: it lacks the verifier, or has another version of it. Another one may."""


class Tasks:
    """Made once for as long as the ledger says the same of the rung."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Task]] = {}

    def jobs(self, asked: Asked) -> list[ClaimedJob]:
        """In order. Raises CannotError."""
        found = []
        for claim, row in asked.jobs:
            task, candidate = self._task(row), asked.candidates[row.candidate_id]
            key = task.verifier.evidence_key(candidate, row.replicate)
            if key.hash != row.evidence_key:
                raise CannotError(f"{row.verifier} gives candidate {row.candidate_id} another evidence key here")
            declared = cost_or_none(task.verifier, candidate)
            found.append(ClaimedJob(claim, task, row.candidate_id, candidate, key, declared))
        return found

    def _task(self, row: Any) -> Task:
        asked = (row.verifier, row.verifier_version, row.settings_hash, row.request)
        if row.rung_id in self._made and self._made[row.rung_id][0] == asked:
            return self._made[row.rung_id][1]
        try:
            settings, limits = row.request["settings"], Limits(**row.request["limits"])
            verifier = verifier_class(row.verifier)(settings)
            verifier.scope = row.name
        except UsageError as error:
            raise CannotError(str(error)) from error
        except (TypeError, KeyError, ValueError, LookupError, OSError) as error:
            raise CannotError(f"{row.verifier} does not take the settings in the ledger: {error}") from error
        here = (verifier.version, verifier.settings_hash)
        if here != (row.verifier_version, row.settings_hash):
            raise CannotError(
                f"{row.verifier} is version {here[0]} here, the campaign {row.name} goes by version "
                f"{row.verifier_version} or other defaults; install the same sciagent and plug-ins everywhere"
            )
        needs = dict(row.request.get("resources", {}))
        task = Task(row.campaign_id, row.rung_id, verifier, settings, limits, needs)
        self._made[row.rung_id] = asked, task
        return task
