"""The process of one job: it verifies a batch and sends each finding at once.

The zygote, a warm process with the verifiers' modules, forks this process as its child.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import candidate_from_record
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.states_and_needs import ReportedProgress
from sciagent.errors import SimulatorError
from sciagent.verification.cost_models import declared_cost
from sciagent.verification.sandbox import process_trees
from sciagent.verification.sandbox.messages import MAX_LINE, Job, Sent, dumps, finding_to_wire
from sciagent.verification.verifier_contract import Context, Verifier, error_finding

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
JSON_ERRORS = (TypeError, ValueError, AttributeError, RecursionError)  # raised for a finding without a JSON form
STDERR = 2  # file descriptor of standard error
THREAD_STACK_BYTES = 128 << 20  # address space that each further thread may reserve without using it
PROGRESS_SECONDS = 1.0  # least time between two reports of progress
MAX_FRAMES = 6  # innermost frames of a traceback that are kept
MAX_TRACEBACK = 3000  # characters of a traceback that are kept


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
    faulthandler.enable(STDERR)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(job.limits.threads)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if job.cuda is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = job.cuda
    # CUDA reserves addresses for all memory of the machine and its GPUs, so that a limit on the address space would
    # stop every job on a GPU; the zygote watches the memory in use. An empty `cuda` hides all GPUs.
    if not job.cuda:
        stacks = (job.limits.threads - 1) * THREAD_STACK_BYTES
        process_trees.limit_memory(base_size + (job.limits.memory_mb << 20) + stacks)
    _verify(job, kind, work, _Sender(zygote))


def _verify(job: Job, kind: type[Verifier[Any]], work: Path, send: _Sender) -> None:
    """Sends a finding for each candidate, and `done` unless a candidate fails."""
    try:
        verifier = kind(job.settings)
        declared = {(measure.property.name, measure.level) for measure in verifier.measures}
    except BaseException as error:  # noqa: BLE001  any exception of a verifier is recorded
        send.last(_fault(job.candidates[0].key, error))
        return
    groups = [job.candidates] if job.together else [(candidate,) for candidate in job.candidates]
    wall_seconds = job.limits.wall_seconds * (len(job.candidates) if job.together else 1)
    for group in groups:
        deadline = time.monotonic() + wall_seconds
        if not _verify_group(job, verifier, declared, group, work, deadline, send):
            return
    send.message({"done": True})


def _verify_group(
    job: Job,
    verifier: Verifier[Any],
    declared: Set[tuple[str, Level]],
    group: Sequence[Sent],
    work: Path,
    deadline: float,
    send: _Sender,
) -> bool:
    """Calls `verify` once for the candidates of a group that the verifier accepts, and sends a finding for each.
    deadline: of the group, by `time.monotonic`.

    Returns False after a failure, which is the last finding of this process.
    """
    prepared = [_prepare(verifier, sent) for sent in group]
    accepted = [candidate for candidate in prepared if not isinstance(candidate, Finding)]
    findings: Iterator[Finding] | None = None
    started_at = time.monotonic()  # start of the work on the next finding
    for sent, candidate in zip(group, prepared, strict=True):
        if isinstance(candidate, Finding):
            send.finding(candidate)
            continue
        try:
            if findings is None:
                checkpoint = Path(sent.checkpoint) if sent.checkpoint else work / "checkpoint"
                context = _Context(
                    scratch=work,
                    checkpoint=checkpoint,
                    replicate=job.replicate,
                    settings_hash=verifier.settings_hash,
                    threads=job.limits.threads,
                    memory_mb=job.limits.memory_mb,
                    progress=send.progress,
                    deadline=deadline,
                )
                findings = iter(verifier.verify(accepted, context))
            next_finding = next(findings, None)
            finding = _checked(next_finding, declared)
        except _BadFindingError as error:
            send.last(_bad(sent.key, str(error)))
            return False
        except BaseException as error:  # noqa: BLE001  any exception of a verifier is recorded
            send.last(_fault(sent.key, error, verifier, "verify"))
            return False
        try:
            send.finding(finding, took=time.monotonic() - started_at)
            started_at = time.monotonic()
        except JSON_ERRORS as error:
            send.last(_bad(sent.key, f"a finding that has no JSON form: {error}"))
            return False
    if findings is not None:
        _report_surplus(findings, send)
    return True


def _report_surplus(findings: Iterator[Finding], send: _Sender) -> None:
    """Sends a finding that is left after the last candidate; the zygote rejects it. An error is ignored."""
    with contextlib.suppress(Exception):
        surplus = next(findings, None)
        if surplus is not None:
            send.finding(surplus)


class _BadFindingError(Exception):
    """A verifier yielded an invalid finding; the text says why it is invalid."""


def _checked(given: object, declared: Set[tuple[str, Level]]) -> Finding:
    """Returns the finding that `verify` yielded. Raises _BadFindingError if it is none or has undeclared properties.

    given: the yielded object; None if `verify` has ended. declared: (property, level) that the verifier measures.
    """
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
    """Returns the candidate if the verifier accepts it, else the finding with the reason."""
    doing = ""  # name of the verifier's method that runs; empty if none does
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
            declared_cost(verifier, candidate)  # the driver has ignored an error of `cost`; here it is reported
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return _fault(sent.key, error, verifier, doing)
    return _refused(sent.key, refusal.reason, refusal.detail) if refusal else candidate


def _refused(key: str, reason: Reason, detail: str) -> Finding:
    """Returns the finding that the verifier refuses the candidate."""
    return Finding(key, Outcome.REFUSED, reason=reason, detail=detail)


def _bad(key: str, detail: str) -> Finding:
    """Returns the failure of a verifier that gave an invalid finding."""
    return Finding(key, Outcome.CRASHED, reason=Reason.BAD_RESULT, detail=detail)


def _fault(key: str, error: BaseException, verifier: Verifier[Any] | None = None, doing: str = "") -> Finding:
    """Returns the finding for an exception of the verifier. doing: the method that raised it; empty if unknown."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard_limit, hard_limit))  # leaves memory for the report
    detail = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SimulatorError):
        try:
            return error_finding(key, error)
        except ValueError as unknown:
            return _bad(key, f"{detail}; {unknown}")
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
    innermost_frames = traceback.format_tb(error.__traceback__)[-MAX_FRAMES:]
    diagnostics = {"traceback": "".join(innermost_frames)[-MAX_TRACEBACK:]}
    if verifier is not None and doing:
        detail = f"{verifier.name} in {doing}: {detail}"
        frame = _last_frame(error, type(verifier))
        if frame:
            diagnostics["frame"] = frame
            detail += f" ({frame})"
    return Finding(key, outcome, reason=reason, detail=detail, diagnostics=diagnostics)


def _last_frame(error: BaseException, kind: type[Verifier[Any]]) -> str:
    """Returns the innermost frame in the verifier's package, such as `file.py:40 in accepts`; empty if none."""
    package = kind.__module__.partition(".")[0]
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):  # the innermost frame comes last
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] == package:
            place = f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
    return place


class _Sender:
    """The child's end of its socket to the zygote."""

    def __init__(self, zygote: socket.socket) -> None:
        self._zygote = zygote
        self._lock = threading.Lock()  # an engine's thread may report progress
        self._heard_at = -PROGRESS_SECONDS  # time of the last report that was passed on
        self._sent_cpu = 0.0  # CPU seconds that the sent findings have reported

    def message(self, message: Mapping[str, Any]) -> None:
        """Sends a message. Raises ValueError if it is too long or has no JSON form."""
        line = dumps(message)
        if len(line) > MAX_LINE:
            raise ValueError(f"{len(line)} bytes; at most {MAX_LINE}")
        with self._lock:
            self._zygote.sendall(line)

    def progress(self, done: float, of: float, text: str = "") -> None:
        """Sends a report of progress, unless the last one is younger than `PROGRESS_SECONDS`. Raises ValueError as
        `ReportedProgress.clipped`."""
        progress = ReportedProgress.clipped(done, of, text)
        now = time.monotonic()
        if now - self._heard_at >= PROGRESS_SECONDS:
            self._heard_at = now
            self.message({"progress": {"done": progress.done, "of": progress.of, "text": progress.text}})

    def finding(self, finding: Finding, **more: float) -> None:
        """Sends a finding; if it has artifacts, waits until the zygote has copied them.

        more: further fields of the message.
        """
        used_cpu = process_trees.own_cpu()
        waits = bool(finding.artifacts)
        cpu_of_finding = used_cpu - self._sent_cpu
        self.message({"finding": finding_to_wire(finding), "cpu": cpu_of_finding, "waits": waits, **more})
        self._sent_cpu = used_cpu
        if waits and not self._zygote.recv(1):  # the zygote has closed the socket
            raise SystemExit(1)

    def last(self, finding: Finding) -> None:
        """Sends the last finding of this process; a fresh process verifies the rest of the batch."""
        try:
            self.finding(finding, stop=True)
        except JSON_ERRORS as error:
            self.finding(_bad(finding.candidate_key, f"diagnostics without a JSON form: {error}"), stop=True)
