"""Submits job arrays to Slurm, and reads their states without accounting (sacct)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sciagent.errors import SlurmError, UsageError
from sciagent.execution.slurm.argument_types import Word
from sciagent.execution.slurm.commands import Commands
from sciagent.execution.slurm.partition_choice import ResourceRequest
from sciagent.execution.slurm.script import WARNING_SIGNAL, render
from sciagent.execution.slurm.site import SiteProfile
from sciagent.execution.slurm.spool import Spool, new_token, read_elements, spools
from sciagent.execution.slurm.states import QUEUE_FORMAT, ElementStatus, element_status, queue_lines

_WORDS = TypeAdapter(tuple[Word, ...])
_UNKNOWN_JOB = "Invalid job id"


@dataclass(frozen=True)
class Array:
    """A job array that was submitted."""

    job_id: int
    """Slurm's id, which Slurm may use again later for another job."""
    token: str
    """Our own id, which is part of the job's name."""
    size: int
    """Number of elements."""

    @property
    def name(self) -> str:
        return _name(self.token)


def _name(token: str) -> str:
    return f"sciagent-{token}"


class Slurm:
    """Slurm at one site. All methods raise SlurmError when Slurm refuses or does not answer.

    variables: environment of the jobs, in addition to the profile's.
    """

    def __init__(self, site: SiteProfile, variables: Mapping[str, str] | None = None) -> None:
        self.site, self._variables = site, dict(variables or {})
        self.commands = Commands(site)

    def submit(
        self, request: ResourceRequest, elements: Sequence[Any], words: Sequence[str], token: str | None = None
    ) -> Array:
        """Submit an array. Each element runs the site's python with `words` and the path of a file with all `elements`.

        elements: JSON values; an element reads its own by `spool.own_element`. token: from `spool.new_token`, for a
        caller that records it before submitting; a new one by default. Raises UsageError if there are too many
        elements, or if a word holds characters that are not allowed in a command.
        """
        if not 1 <= len(elements) <= self.site.max_array:
            raise UsageError(f"{len(elements)} elements; an array of {self.site.site} has 1 to {self.site.max_array}")
        spool = Spool(self.site.spool, token or new_token())
        command = [self.site.python, *_checked(words), str(spool.elements)]
        extra = self._variables | self.commands.passed()
        spool.write(elements, render(self.site))
        limit = f"%{self.site.max_running}" if self.site.max_running else ""
        try:
            answer = self.commands.run(
                "sbatch",
                "--parsable",
                f"--array=0-{len(elements) - 1}{limit}",
                f"--job-name={_name(spool.token)}",
                f"--chdir={spool.folder}",
                f"--output={spool.folder}/out.%a",
                *self._sbatch_options(request),
                str(spool.script),
                str(spool.folder),
                *command,
                extra=extra,
            )
            job_id = _job_id(answer)
        except SlurmError:
            spool.remove()  # if Slurm accepted the array all the same, its elements find nothing to do
            raise
        spool.remember(job_id, len(elements))
        return Array(job_id, spool.token, len(elements))

    def rehearse(self, request: ResourceRequest) -> str:
        """Slurm's forecast for such a job: where and when it would start. Nothing is submitted."""
        done = self.commands.attempt("sbatch", "--test-only", *self._sbatch_options(request), "--wrap=true")
        report = " ".join(line.removeprefix("sbatch: ") for line in done.stderr.splitlines())[:1000]
        if done.returncode:
            raise SlurmError(f"sbatch: {report}")
        return report

    def states(self, arrays: Collection[Array]) -> dict[Array, list[ElementStatus]]:
        """The status of every element of each array, from one squeue call and the files in the spool folders."""
        queue = self._queue(arrays)
        return {
            array: [
                element_status(number, queue.get(array.name, {}).get(number), Spool(self.site.spool, array.token))
                for number in range(array.size)
            ]
            for array in arrays
        }

    def tasks_of(self, array: Array) -> list[Any]:
        """The tasks that were written for the array's elements; empty if its folder cannot be read."""
        try:
            return read_elements(Spool(self.site.spool, array.token).elements)
        except SlurmError:
            return []

    def failure_text(self, array: Array, element: ElementStatus) -> str:
        """Why an element failed: the last line that it printed, or its exit code."""
        printed = Spool(self.site.spool, array.token).last_line(element.number)
        return printed or f"exit code {element.code}, and it printed nothing"

    def arrays(self) -> list[Array]:
        """Every array with a folder in the spool, including those whose submitter died before recording the id."""
        submitted = [(spool, spool.remembered() or self._find_unrecorded(spool)) for spool in spools(self.site.spool)]
        return [Array(known[0], spool.token, known[1]) for spool, known in submitted if known is not None]

    def discard(self, array: Array) -> None:
        """Remove the array's folder. All its elements must have ended."""
        Spool(self.site.spool, array.token).remove()

    def _sbatch_options(self, request: ResourceRequest) -> list[str]:
        partition = request.partition
        words = [
            f"--partition={partition.name}",
            f"--time={request.minutes}",
            f"--mem={request.memory_mb}M",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={request.cores}",
            "--no-requeue",
            "--export=ALL",
            f"--signal=B:{WARNING_SIGNAL}@{self.site.wall.warning_seconds}",
        ]
        words += [f"--gres=gpu:{request.gpus}"] if request.gpus else []
        words += [f"--licenses={','.join(f'{name}:{n}' for name, n in request.licences)}"] if request.licences else []
        words += [f"--account={partition.account}"] if partition.account else []
        words += [f"--qos={partition.qos}"] if partition.qos else []
        return [*words, *self.site.options]

    def _queue(self, arrays: Collection[Array]) -> dict[str, dict[int, str]]:
        """Slurm's states by array name and element; by name, since an id may belong to another job by now."""
        if not arrays:
            return {}
        ids = ",".join(str(array.job_id) for array in arrays)
        done = self.commands.attempt(
            "squeue", "--noheader", "--array", "--states=all", f"--jobs={ids}", f"--format={QUEUE_FORMAT}"
        )
        if done.returncode and _UNKNOWN_JOB not in done.stderr:
            raise SlurmError(f"squeue: {done.stderr.strip()[:1000]}")
        by_name: dict[str, dict[int | None, str]] = {}
        for _, name, number, word in queue_lines(done.stdout.splitlines()):
            by_name.setdefault(name, {})[number] = word
        return {array.name: _spread(by_name[array.name], array.size) for array in arrays if array.name in by_name}

    def _find_unrecorded(self, spool: Spool) -> tuple[int, int] | None:
        """Slurm's id of an array whose submitter died before recording it, and the number of its elements."""
        wanted = _name(spool.token)
        look = ("--noheader", "--array", "--states=all", f"--name={wanted}", f"--format={QUEUE_FORMAT}")
        for job_id, name, _, _ in queue_lines(self.commands.run("squeue", *look).splitlines()):
            if name == wanted:
                size = spool.size()
                spool.remember(job_id, size)
                return job_id, size
        return None


def _job_id(answer: str) -> int:
    """The job id in sbatch's answer, which is `4711` or `4711;cluster`."""
    number = answer.strip().partition(";")[0]
    if not number.isdecimal():
        raise SlurmError(f"sbatch gave no job id, but {answer.strip()[:200]!r}")
    return int(number)


def _spread(words: Mapping[int | None, str], size: int) -> dict[int, str]:
    """States by element. A record without a number stands for all elements that never started."""
    rest = words.get(None)
    return {n: word for n in range(size) if (word := words.get(n, rest)) is not None}


def _checked(words: Sequence[str]) -> tuple[str, ...]:
    try:
        return _WORDS.validate_python(tuple(words))
    except ValidationError as error:
        raise UsageError(f"the command {list(words)!r}: {error.errors()[0]['msg']}") from None
