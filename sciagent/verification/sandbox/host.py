"""The driver's side of the sandbox: a worker runs each verification in a process of its own.

The driver is the process that wants findings. A worker has a zygote, a warm process that forks a child for each job.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import record_of
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import ArtifactFile, Finding
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import MAX_LOSSES, Hear, ReportedProgress
from sciagent.errors import UsageError
from sciagent.verification.declarations_and_availability import interpreter_of
from sciagent.verification.sandbox.messages import Job, Limits, Sent, StoredFile, finding_from_wire
from sciagent.verification.sandbox.nursery_pool_and_links import ZygoteDiedError, ZygoteLink
from sciagent.verification.verifier_contract import BaseVerifier

__all__ = ["HostResult", "Limits", "Request", "StoredFile", "Worker"]

START_SECONDS = 660.0  # time for imports from a cold disk, and for programs to state their versions
GRACE_SECONDS = 45.0  # time for the zygote to end a job
CANCEL_SECONDS = 1.5  # time for a cancellation, after which the zygote itself is killed


@dataclass(frozen=True)
class Request:
    """A verification of candidates by a verifier."""

    verifier: str
    settings: Mapping[str, Any]
    """In the form that the verifier's settings model takes."""
    candidates: tuple[Candidate, ...]
    limits: Limits = field(default_factory=Limits)
    replicate: int = 0
    checkpoints: tuple[Path, ...] = ()
    """A folder for each candidate that is kept after the attempt; none by default."""
    together: bool = False
    """Whether all candidates are verified in a single call and share its cost and time."""
    cuda: str | None = None
    """The visible GPUs, as in CUDA_VISIBLE_DEVICES; None for those of this process."""
    environment: str | None = None
    """Name of the environment in which the verifier runs (`Verifier.runs_in`); None for that of this process."""
    interpreter: Path | None = None
    """Interpreter of that environment on this machine; None for that of this process."""

    @classmethod
    def of(cls, verifier: BaseVerifier[Any], candidates: Sequence[Candidate], limits: Limits) -> Request:
        """Returns the request for a verifier with its settings, in its environment. Raises UsageError if this machine
        lacks that environment."""
        request = cls(verifier.name, verifier.request_settings, tuple(candidates), limits)
        return replace(request, environment=verifier.runs_in, interpreter=interpreter_of(verifier))


@dataclass(frozen=True)
class HostResult:
    """The finding on a candidate and its cost."""

    finding: Finding
    cost: Cost
    """CPU time of the whole process tree; empty if the zygote died, which leaves it unknown."""
    wall_seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    files: tuple[StoredFile, ...] = ()
    """The artifacts, in the worker's spool folder; copy them before `Worker.close`."""
    own_seconds: float | None = None
    """Wall time of the verification without the start of its process, measured by that process."""

    @property
    def actual(self) -> Cost:
        """The cost from which a cost model learns: with what the verifier itself has counted."""
        return self.cost + (self.finding.spent or {})


_DOUBTFUL = (Outcome.CRASHED, Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT)
"""Outcomes that an earlier candidate in the same process may have caused."""


def _prefix() -> str:
    """Returns the beginning of the names of the folders of this machine's workers."""
    return f"worker-{re.sub('[^A-Za-z0-9.]', '_', socket.gethostname())}-"


def sweep(scratch_root: Path) -> int:
    """Removes the folders of this machine's workers whose driver is gone. Returns their number.

    A worker removes its own folder, unless driver and zygote are killed at the same instant.
    """
    removed = 0
    for folder in scratch_root.glob(f"{_prefix()}*"):
        pid, _, _ = folder.name.removeprefix(_prefix()).partition("-")
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


class Worker:
    """A warm process and its children. One thread at a time may use it; any thread may call `cancel`.

    preload: names of verifiers whose modules are imported before the first request.
    Raises UsageError on systems other than Linux.
    """

    def __init__(self, scratch_root: Path, *, preload: Sequence[str] = ()) -> None:
        if sys.platform != "linux":
            raise UsageError(f"verifications run on Linux only, this is {sys.platform}; use a container or WSL 2")
        scratch_root.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_prefix()}{os.getpid()}-", dir=scratch_root.resolve()))
        self._preload = tuple(preload)
        self._number = 0  # of the last job
        self._cancelled = threading.Event()
        self._running = False
        self._hear: Hear | None = None
        self._wasted = Cost()  # of failed attempts of a candidate that is tried again
        self._versions: dict[str, str] = {}  # of the engines, as the zygote states them for the running job
        self._link = ZygoteLink(self.folder, self._preload)  # to the zygote of the running or the last job
        self._links: dict[Path | None, ZygoteLink] = {None: self._link}  # by interpreter

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of the zygote. It changes if the zygote has died and `run` is called again."""
        return self._link.pid

    def run(self, request: Request, hear: Hear | None = None) -> list[HostResult]:
        """Returns one result for each candidate, in order, even if the verifier crashes. hear: called in this thread
        with the key of a candidate and the progress that its verification reports.

        If the process dies, only the current candidate fails, and only if it was the first in that process; otherwise
        it is retried first in a fresh process, since an earlier candidate may have corrupted the process. If the zygote
        dies, the current candidate is lost, and the others run under a fresh zygote. After `MAX_LOSSES` zygotes that
        died one after the other without a finding between, all candidates without a finding are lost. Candidates that
        are verified together and fail before their first finding are halved and run again, until the candidate that
        causes the failure is identified.
        """
        self._cancelled.clear()
        self._running = True
        self._hear = hear
        self._wasted = Cost()
        try:
            return self._run_all(request, request.candidates)
        finally:
            self._running = False

    def _run_all(self, request: Request, candidates: tuple[Candidate, ...]) -> list[HostResult]:
        """Returns one result for each of these candidates. The number of zygotes that die one after the other is
        limited, since what kills them may be the machine."""
        results: list[HostResult] = []
        n_deaths = 0  # zygotes that died one after the other
        while len(results) < len(candidates):
            candidates_left = candidates[len(results) :]
            new_results = self._attempt(request, candidates_left)
            # a zygote that dies leaves one lost result, that of the candidate that was running
            has_died = new_results[-1].finding.outcome is Outcome.LOST
            if not has_died:
                n_deaths = 0
            elif len(new_results) > 1:  # it has survived a candidate
                n_deaths = 1
            else:
                n_deaths += 1
            if n_deaths >= MAX_LOSSES:
                why = new_results[-1].finding.detail
                new_results += [self._lost(unrun, 0.0, why) for unrun in candidates_left[len(new_results) :]]
            results += new_results
        return results

    def _halved(self, request: Request, candidates: tuple[Candidate, ...], cpu: float, wall: float) -> list[HostResult]:
        """Runs candidates that failed together in two groups. cpu, wall: CPU and wall time of the failure, s."""
        middle = (len(candidates) + 1) // 2
        results = self._run_all(request, candidates[:middle]) + self._run_all(request, candidates[middle:])
        return _charge_failure(results, cpu, wall)

    def cancel(self) -> None:
        """Kills the running job. Within seconds `run` returns lost/worker_died with the detail "cancelled" for every
        candidate without a finding. It has no effect without a running request."""
        if self._running:
            self._cancelled.set()
            if not self._link.send({"cancel": self._number}, patience=CANCEL_SECONDS):
                self._link.kill()

    def close(self) -> None:
        """Ends the zygotes and their descendants, and removes the worker's folder with all spooled artifacts."""
        for link in self._links.values():
            link.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _attempt(self, request: Request, candidates: tuple[Candidate, ...]) -> list[HostResult]:
        """Runs one child process. Returns the results of the first candidates, at least one."""
        if self._cancelled.is_set():
            return [self._lost(unrun, 0.0, "cancelled") for unrun in candidates]
        results: list[HostResult] = []
        started_at = time.monotonic()
        try:
            end = self._converse(request, candidates, results)
        except (ZygoteDiedError, ConnectionError) as error:  # the latter if every new nursery ends at once
            self._link.bury()
            seconds = time.monotonic() - started_at
            return self._without_zygote(
                request, candidates, results, seconds, f"the zygote, which forks the processes of jobs, died: {error}"
            )
        return self._ended(request, candidates, results, end)

    def _without_zygote(
        self, request: Request, candidates: tuple[Candidate, ...], results: list[HostResult], seconds: float, why: str
    ) -> list[HostResult]:
        """Returns the results of an attempt whose zygote died, at least one.

        results: of the first candidates, before it died. seconds: wall time of the attempt. why: detail of a lost
        finding.
        """
        is_cancelled = self._cancelled.is_set()  # a cancellation may kill the zygote
        is_batch = request.together and len(candidates) > 1
        if is_batch and not results and not is_cancelled:
            return self._halved(request, candidates, cpu=0.0, wall=seconds)
        candidates_left = candidates[len(results) :]
        if not candidates_left:  # the zygote died after the last finding
            return results
        wall = max(0.0, seconds - sum(result.wall_seconds for result in results))
        if not is_cancelled:
            return [*results, self._lost(candidates_left[0], wall, why)]
        n_left = len(candidates_left)
        if request.together:  # all of them have run
            walls = [wall / n_left] * n_left
        else:  # only the current candidate has run
            walls = [wall] + [0.0] * (n_left - 1)
        for candidate, candidate_wall in zip(candidates_left, walls, strict=True):
            results.append(self._lost(candidate, candidate_wall, "cancelled"))
        return results

    def _ended(
        self, request: Request, candidates: tuple[Candidate, ...], results: list[HostResult], end: Mapping[str, Any]
    ) -> list[HostResult]:
        """Returns the results of a child process that ended while its zygote lived. end: the zygote's last event."""
        cpu = end["cpu"]
        failure = end["failure"]
        index = end["index"]
        if failure is not None and end["whole"]:  # the failure holds for every candidate
            return [self._failed(candidate, failure, wall=0.0) for candidate in candidates]
        is_batch = request.together and len(candidates) > 1
        if is_batch and _is_batch_doubtful(failure, index, results):
            wall = end["wall"] + sum(result.wall_seconds for result in results)
            return self._halved(request, candidates, cpu=cpu, wall=wall)
        failed = None
        if failure is not None:
            failed = self._failed(candidates[index], failure, end["wall"])
            results = results[:index]  # without a finding of the failed candidate itself
        if not is_batch:
            return self._without_doubtful_last(_share(cpu, results, failed))
        all_results = results if failed is None else [*results, failed]
        return self._without_doubtful_last(_share_by_weight(cpu, all_results))

    def _without_doubtful_last(self, results: list[HostResult]) -> list[HostResult]:
        """Drops a last result that failed in a process used by earlier candidates; its cost is added to its retry."""
        # the candidate that was dropped before is now the first one
        results[0] = replace(results[0], cost=results[0].cost + self._wasted)
        self._wasted = Cost()
        if len(results) > 1 and results[-1].finding.outcome in _DOUBTFUL:
            self._wasted = results.pop().cost
        return results

    def _converse(
        self, request: Request, candidates: tuple[Candidate, ...], results: list[HostResult]
    ) -> Mapping[str, Any]:
        """Appends to `results` as findings arrive, with the CPU time claimed by the child. Returns the last event."""
        self._take_link(request)
        self._versions = {}
        job = self._next_job(request, candidates)
        self._link.send(job.to_wire())
        patience = START_SECONDS
        while True:
            deadline = time.monotonic() + patience
            event = self._link.receive(deadline, hurry=self._cancelled, hurry_seconds=CANCEL_SECONDS)
            n_verified_at_once = len(candidates) if job.together else 1
            patience = request.limits.wall_seconds * n_verified_at_once + GRACE_SECONDS
            if event["event"] == "end":
                return event
            if event["event"] == "started":
                self._versions = dict(event["versions"])
                if request.interpreter and request.environment:
                    self._versions["environment"] = request.environment
            elif event["event"] == "progress":
                if self._hear is not None:
                    self._hear(
                        candidates[event["index"]].key, ReportedProgress(event["done"], event["of"], event["text"])
                    )
            else:
                results.append(self._result(candidates[len(results)], event))

    def _next_job(self, request: Request, candidates: tuple[Candidate, ...]) -> Job:
        """Returns a job, with a new number, for these candidates of the request."""
        self._number += 1
        # a request has a checkpoint folder for each candidate, or none at all
        keys = [candidate.key for candidate in request.candidates]
        folders = {key: str(folder.absolute()) for key, folder in zip(keys, request.checkpoints, strict=False)}
        sent = tuple(
            Sent(candidate.key, candidate.kind, record_of(candidate), folders.get(candidate.key))
            for candidate in candidates
        )
        return Job(
            number=self._number,
            verifier=request.verifier,
            settings=request.settings,
            candidates=sent,
            limits=request.limits,
            replicate=request.replicate,
            together=request.together and len(sent) > 1,
            cuda=request.cuda,
        )

    def _result(self, candidate: Candidate, event: Mapping[str, Any]) -> HostResult:
        """Returns the result in the zygote's event with a finding on the candidate."""
        finding = finding_from_wire(event["sent"]["finding"], candidate.key)
        files = tuple(StoredFile(**{**file, "path": Path(file["path"])}) for file in event["files"])
        artifacts = tuple(ArtifactFile(stored.name, str(stored.path), stored.media_type) for stored in files)
        return HostResult(
            finding=replace(finding, artifacts=artifacts),
            cost=Cost(core_seconds=event["cpu"]),
            wall_seconds=event["wall"],
            versions=dict(finding.versions) | self._versions,
            files=files,
            own_seconds=event["took"],
        )

    def _take_link(self, request: Request) -> None:
        """Makes the zygote of the request's environment the current one; starts it if it is not alive."""
        interpreter = request.interpreter
        link = self._links.get(interpreter)
        if link is not None and not link.alive:
            link.bury()
            link = None
        if link is None and interpreter is None:
            link = ZygoteLink(self.folder, self._preload)
        elif link is None:
            folder = self.folder / f"environment-{request.environment}"
            link = ZygoteLink(folder, preload=[request.verifier], interpreter=interpreter)
        self._link = link
        self._links[interpreter] = link

    def _failed(self, candidate: Candidate, failure: Mapping[str, Any], wall: float) -> HostResult:
        """Returns the result of a candidate with this failure, in wire form. wall: s."""
        finding = finding_from_wire({**failure, "candidate_key": candidate.key}, candidate.key)
        return HostResult(finding, Cost(), wall, dict(self._versions))

    def _lost(self, candidate: Candidate, wall: float, why: str) -> HostResult:
        """Returns the result of a candidate without a finding, whose process is gone. wall: s."""
        finding = Finding(candidate.key, Outcome.LOST, reason=Reason.WORKER_DIED, detail=why)
        return HostResult(finding, Cost(), wall, dict(self._versions))


def _charge_failure(results: list[HostResult], cpu: float, wall: float) -> list[HostResult]:
    """Returns the results with the CPU and wall time of a failed call added to the candidates that fail alone as well,
    or to all if none of them does. The CPU time of a lost process is estimated from its wall time later."""
    failing = [i for i, result in enumerate(results) if result.finding.outcome in (*_DOUBTFUL, Outcome.LOST)]
    charged = failing or list(range(len(results)))
    for i in charged:
        result = results[i]
        cost = result.cost
        if result.finding.outcome is not Outcome.LOST:
            cost = cost + Cost(core_seconds=cpu / len(charged))
        seconds = result.wall_seconds + wall / len(charged)
        results[i] = replace(result, cost=cost, wall_seconds=seconds)
    return results


def _share_by_weight(cpu: float, results: list[HostResult]) -> list[HostResult]:
    """Returns the results with CPU and wall time of the call divided in proportion to `Finding.share`."""
    total_share = sum(result.finding.share for result in results)
    wall = sum(result.wall_seconds for result in results)
    all_own_seconds = []
    for result in results:
        all_own_seconds.append(result.wall_seconds if result.own_seconds is None else result.own_seconds)
    own = sum(all_own_seconds)
    weighted_results = []
    for result in results:
        part = result.finding.share / total_share
        cost = Cost(core_seconds=cpu * part)
        weighted_results.append(replace(result, cost=cost, wall_seconds=wall * part, own_seconds=own * part))
    return weighted_results


def _share(cpu: float, results: list[HostResult], failed: HostResult | None = None) -> list[HostResult]:
    """Returns the results with costs that sum to `cpu`, the CPU time of the whole process tree. Each finding costs what
    the child claimed, the failed candidate the rest. Claims are scaled without a failure, or if they exceed `cpu`."""
    claims = [result.cost.get("core_seconds", 0.0) for result in results]
    if failed is not None:
        results = [*results, failed]
        claims = [*claims, max(0.0, cpu - sum(claims))]
    if not sum(claims):  # without any claim the parts are equal
        claims = [1.0] * len(claims)
    scale = cpu / sum(claims)
    return [
        replace(result, cost=Cost(core_seconds=claim * scale)) for result, claim in zip(results, claims, strict=True)
    ]


def _is_batch_doubtful(failure: Mapping[str, Any] | None, index: int, results: Sequence[HostResult]) -> bool:
    """Returns whether no result of a batch is reliable: its first candidate failed, or its one result is doubtful."""
    if failure is not None and index == 0:
        return True
    return len(results) == 1 and results[0].finding.outcome in _DOUBTFUL
