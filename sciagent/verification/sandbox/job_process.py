"""The process of one job, forked by the zygote: it verifies a batch and sends each finding at once."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import socket
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from sciagent.chemistry.subjects.registry import candidate_from_record
from sciagent.domain.candidates import Candidate
from sciagent.domain.evidence import Finding
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.properties import Level
from sciagent.domain.rung_position import Tier
from sciagent.errors import SimulatorError
from sciagent.verification.contract import Context, Verifier, error_finding
from sciagent.verification.cost_models import declared_cost
from sciagent.verification.sandbox import process_trees
from sciagent.verification.sandbox.messages import MAX_LINE, Job, Sent, dumps, finding_to_wire

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
NO_JSON = (TypeError, ValueError, AttributeError, RecursionError)
THREAD_STACKS = 128 << 20  # bytes of address space for each further thread, which may reserve it without use


def run(job: Job, kind: type[Verifier[Any]], zygote: socket.socket, work: Path, output: Path, base_size: int) -> None:
    """Verifies the candidates of the job, in a process that ends afterwards. Sends a finding for each candidate, then
    `done`. Candidates are verified one by one, or in one call for a job that runs them together. After a finding with
    files the child waits for the zygote's acknowledgement.

    zygote: socket to the zygote. work: the empty working directory. output: file for standard output and error.
    base_size: address space of the zygote, bytes.
    """
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    process_trees.redirect(work, output)
    faulthandler.enable(2)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(job.limits.threads)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if job.cuda is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = job.cuda
    if not job.cuda:  # CUDA reserves addresses for the memory of machine and GPUs; the zygote watches the memory in use
        stacks = (job.limits.threads - 1) * THREAD_STACKS
        process_trees.limit_memory(base_size + (job.limits.memory_mb << 20) + stacks)
    _verify(job, kind, work, _Sender(zygote))


def _verify(job: Job, kind: type[Verifier[Any]], work: Path, send: _Sender) -> None:
    try:
        verifier = kind(job.settings)
        declared = {(measure.property.name, measure.level) for measure in verifier.measures}
    except BaseException as error:  # noqa: BLE001  any exception of a verifier is recorded
        send.last(_fault(job.candidates[0].key, error))
        return
    groups = [job.candidates] if job.together else [(candidate,) for candidate in job.candidates]
    if all(_verify_group(job, verifier, declared, group, work, send) for group in groups):
        send.message({"done": True})


def _verify_group(
    job: Job,
    verifier: Verifier[Any],
    declared: Set[tuple[str, Level]],
    group: Sequence[Sent],
    work: Path,
    send: _Sender,
) -> bool:
    """Calls `verify` once. Returns False after a failure, which is the last finding of this process."""
    prepared = [_prepare(verifier, sent) for sent in group]
    accepted = [candidate for candidate in prepared if not isinstance(candidate, Finding)]
    findings: Iterator[Finding] | None = None
    begun = time.monotonic()
    for sent, candidate in zip(group, prepared, strict=True):
        if isinstance(candidate, Finding):
            send.finding(candidate)
            continue
        try:
            if findings is None:
                checkpoint = Path(sent.checkpoint) if sent.checkpoint else work / "checkpoint"
                threads = job.limits.threads
                memory_mb = job.limits.memory_mb
                context = _Context(work, checkpoint, job.replicate, verifier.settings_hash, threads, memory_mb)
                findings = iter(verifier.verify(accepted, context))
            finding = _checked(next(findings, None), declared)
        except _BadFindingError as error:
            send.last(_bad(sent.key, str(error)))
            return False
        except BaseException as error:  # noqa: BLE001  any exception of a verifier is recorded
            send.last(_fault(sent.key, error, verifier, "verify"))
            return False
        try:
            send.finding(finding, took=time.monotonic() - begun)
            begun = time.monotonic()
        except NO_JSON as error:
            send.last(_bad(sent.key, f"a finding that has no JSON form: {error}"))
            return False
    with contextlib.suppress(Exception):  # each candidate has its finding already
        surplus = None if findings is None else next(findings, None)
        if surplus is not None:
            send.finding(surplus)  # the zygote rejects it
    return True


class _BadFindingError(Exception):
    """A verifier yielded an invalid finding; the text says why it is invalid."""


def _checked(given: object, declared: Set[tuple[str, Level]]) -> Finding:
    """Returns what `verify` yielded, if it is a finding with declared properties only; else raises _BadFindingError."""
    if given is None:
        raise _BadFindingError("verify ended before it had a finding for each candidate")
    if not isinstance(given, Finding):
        raise _BadFindingError(f"verify gave a {type(given).__name__}, not a Finding")
    undeclared = {(m.property, m.level) for m in given.measured} - declared
    if undeclared:
        name, level = min(undeclared, key=str)
        raise _BadFindingError(f"{name} at {level.label} is not among what the verifier measures")
    return given


class _Context(Context):
    """A context that creates the checkpoint folder at its first use, since most verifiers never use it."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "checkpoint":
            value.mkdir(parents=True, exist_ok=True)
        return value


def _prepare(verifier: Verifier[Any], sent: Sent) -> Candidate | Finding:
    """Returns the candidate if it is accepted, or the finding that says why not."""
    doing = ""
    try:
        if not verifier.takes(sent.kind):
            return _refused(sent.key, Reason.WRONG_KIND, f"a {sent.kind}; {verifier.name} takes a {verifier.kind}")
        candidate: Candidate = candidate_from_record(sent.kind, sent.record)
        if candidate.key != sent.key:
            detail = f"what was sent has the key {candidate.key}: it was damaged, or the chemistry libraries differ"
            return Finding(sent.key, Outcome.BAD_ENVIRONMENT, reason=Reason.BAD_RESULT, detail=detail)
        doing = "accepts"
        refusal = verifier.accepts(candidate)
        doing = "cost"
        if refusal is None and verifier.tier is not Tier.FAST:
            declared_cost(verifier, candidate)  # the driver ignored an error here; this reports it
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return _fault(sent.key, error, verifier, doing)
    return _refused(sent.key, refusal.reason, refusal.detail) if refusal else candidate


def _refused(key: str, reason: Reason, detail: str) -> Finding:
    return Finding(key, Outcome.REFUSED, reason=reason, detail=detail)


def _bad(key: str, detail: str) -> Finding:
    return Finding(key, Outcome.CRASHED, reason=Reason.BAD_RESULT, detail=detail)


def _fault(key: str, error: BaseException, verifier: Verifier[Any] | None = None, doing: str = "") -> Finding:
    """Returns the finding for an exception of the verifier. doing: the method that raised it."""
    hard_limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard_limit, hard_limit))  # leaves memory for the report
    last = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SimulatorError):
        try:
            return error_finding(key, error)
        except ValueError as unknown:
            return _bad(key, f"{last}; {unknown}")
    if isinstance(error, SystemExit) and not error.code:
        return Finding(key, Outcome.CRASHED, reason=Reason.NO_RESULT, detail="the verifier left with sys.exit")
    outcome = Outcome.CRASHED
    reason = Reason.EXCEPTION
    if isinstance(error, MemoryError):
        outcome = Outcome.OUT_OF_MEMORY
        reason = Reason.MEMORY_LIMIT
    elif isinstance(error, ImportError):
        outcome = Outcome.BAD_ENVIRONMENT
        reason = Reason.IMPORT_FAILED
    diagnostics = {"traceback": "".join(traceback.format_tb(error.__traceback__)[-6:])[-3000:]}
    if verifier is not None and doing:
        last = f"{verifier.name} in {doing}: {last}"
        frame = _last_frame(error, type(verifier))
        if frame:
            diagnostics["frame"] = frame
            last += f" ({frame})"
    return Finding(key, outcome, reason=reason, detail=last, diagnostics=diagnostics)


def _last_frame(error: BaseException, kind: type[Verifier[Any]]) -> str:
    """Returns the innermost frame in the verifier's package, such as `file.py:40 in accepts`; empty if none."""
    package = kind.__module__.partition(".")[0]
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == package:
            place = f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
    return place


class _Sender:
    """The child's end of its socket to the zygote."""

    def __init__(self, zygote: socket.socket) -> None:
        self._zygote = zygote
        self._cpu = 0.0

    def message(self, message: Mapping[str, Any]) -> None:
        """Sends a message. Raises ValueError if it is too long or has no JSON form."""
        line = dumps(message)
        if len(line) > MAX_LINE:
            raise ValueError(f"{len(line)} bytes; at most {MAX_LINE}")
        self._zygote.sendall(line)

    def finding(self, finding: Finding, **more: float) -> None:
        """Sends a finding; if it has artifacts, waits until the zygote has copied them. more: further fields."""
        used = process_trees.own_cpu()
        waits = bool(finding.artifacts)
        self.message({"finding": finding_to_wire(finding), "cpu": used - self._cpu, "waits": waits, **more})
        self._cpu = used
        if waits and not self._zygote.recv(1):
            raise SystemExit(1)

    def last(self, finding: Finding) -> None:
        """Sends the last finding of this process; a fresh process verifies the rest of the batch."""
        try:
            self.finding(finding, stop=True)
        except NO_JSON as error:
            self.finding(_bad(finding.candidate_key, f"diagnostics without a JSON form: {error}"), stop=True)
