"""Submits arrays of jobs to Slurm, follows them without accounting, cancels them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sciagent.errors import SlurmError, UsageError
from sciagent.execution.slurm.argument_types import Word
from sciagent.execution.slurm.commands import Commands
from sciagent.execution.slurm.partition_choice import Request
from sciagent.execution.slurm.script import WARNING_SIGNAL, render
from sciagent.execution.slurm.site import Site
from sciagent.execution.slurm.spool import Spool, new_token, read_elements, spools
from sciagent.execution.slurm.states import (
    QUEUE_FORMAT,
    Element,
    ElementState,
    Said,
    decide,
    decide_word,
    queue_lines,
    records,
)

JOBCOMP_BYTES = 4_000_000  # of its end
_WORDS = TypeAdapter(tuple[Word, ...])
_UNKNOWN_JOB = "Invalid job id"


@dataclass(frozen=True)
class Array:
    """An array that was submitted. job_id: Slurm's, which it may give away again. token: ours, in the job's name."""

    job_id: int
    token: str
    size: int

    @property
    def name(self) -> str:
        return _name(self.token)


def _name(token: str) -> str:
    return f"sciagent-{token}"


class Slurm:
    """The Slurm of a site. All methods raise SlurmError when it refuses, or does not answer. variables: that jobs get
    beside those of the profile."""

    def __init__(self, site: Site, variables: Mapping[str, str] | None = None) -> None:
        self.site, self._variables = site, dict(variables or {})
        self.commands = Commands(site)

    def submit(
        self, request: Request, elements: Sequence[Any], words: Sequence[str], token: str | None = None
    ) -> Array:
        """Each element runs the site's python with `words`, then the path of a file that holds `elements`.

        elements: what JSON can hold; an element reads its own by `spool.own_element`. token: from `spool.new_token`,
        for who has to know it before; a new one by default. Raises UsageError if there are too many elements, or a word
        holds what no command line of ours does.
        """
        if not 1 <= len(elements) <= self.site.max_array:
            raise UsageError(f"{len(elements)} elements; an array of {self.site.site} has 1 to {self.site.max_array}")
        spool = Spool(self.site.spool, token or new_token())
        command = [self.site.python, *_checked(words), str(spool.elements)]
        extra = self._variables | self.commands.passed()
        spool.write(elements, render(self.site))
        limit = f"%{self.site.max_running}" if self.site.max_running else ""
        try:
            said = self.commands.run(
                "sbatch",
                "--parsable",
                f"--array=0-{len(elements) - 1}{limit}",
                f"--job-name={_name(spool.token)}",
                f"--chdir={spool.folder}",
                f"--output={spool.folder}/out.%a",
                *self._asked(request),
                str(spool.script),
                str(spool.folder),
                *command,
                extra=extra,
            )
            job_id = _job_id(said)
        except SlurmError:
            spool.remove()  # if it was submitted all the same, its elements find nothing to do
            raise
        spool.remember(job_id, len(elements))
        return Array(job_id, spool.token, len(elements))

    def rehearse(self, request: Request) -> str:
        """What Slurm says of such a job: where and when it would begin. Nothing is submitted."""
        done = self.commands.attempt("sbatch", "--test-only", *self._asked(request), "--wrap=true")
        said = " ".join(line.removeprefix("sbatch: ") for line in done.stderr.splitlines())[:1000]
        if done.returncode:
            raise SlurmError(f"sbatch: {said}")
        return said

    def answer(self) -> None:
        """Ask something that it cannot refuse; for who wonders whether it is there at all."""
        self.commands.run("sinfo", "--noheader", "--format=%P")

    def states(self, arrays: Collection[Array]) -> dict[Array, list[Element]]:
        """Every element of each array, by its number: one look at the queue, and the marks in the spool folders."""
        queue = self._queue(arrays)
        return {array: self._elements(array, queue.get(array.name, {})) for array in arrays}

    def told(self, array: Array) -> list[Any]:
        """What its elements were given to do; empty where its folder does not say."""
        try:
            return read_elements(Spool(self.site.spool, array.token).elements)
        except SlurmError:
            return []

    def last_words(self, array: Array, element: Element) -> str:
        """How an element failed, by what it printed last."""
        said = Spool(self.site.spool, array.token).last_line(element.number)
        return said or f"exit code {element.code}, and it printed nothing"

    def cancel(self, array: Array, numbers: Collection[int] | None = None) -> None:
        """Cancel the array, or these elements. What has ended stays as it is; another's job is not touched.

        scancel is given no filter by name: with one, it cancels all that wait in an array, whichever are named.
        """
        wanted = set(range(array.size) if numbers is None else numbers)
        known = self._queue([array]).get(array.name, {})
        alive = sorted(n for n in wanted if n in known and not decide_word(known[n].word).ended)
        if not alive:
            return
        chosen = "" if len(alive) == array.size else f"_[{','.join(map(str, alive))}]"
        done = self.commands.attempt("scancel", f"{array.job_id}{chosen}")
        if done.returncode and _UNKNOWN_JOB not in done.stderr:
            raise SlurmError(f"scancel: {done.stderr.strip()[:1000]}")
        Spool(self.site.spool, array.token).note_cancelled(alive)

    def arrays(self) -> list[Array]:
        """Every array whose folder is in the spool, also one whose submitter died before it knew the id."""
        found = [(spool, spool.remembered() or self._adopt(spool)) for spool in spools(self.site.spool)]
        return [Array(known[0], spool.token, known[1]) for spool, known in found if known is not None]

    def discard(self, array: Array) -> None:
        """Remove its folder. Its elements must have ended."""
        Spool(self.site.spool, array.token).remove()

    def _asked(self, request: Request) -> list[str]:
        one = request.partition
        words = [
            f"--partition={one.name}",
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
        words += [f"--account={one.account}"] if one.account else []
        words += [f"--qos={one.qos}"] if one.qos else []
        return [*words, *self.site.options]

    def _queue(self, arrays: Collection[Array]) -> dict[str, dict[int, Said]]:
        """What Slurm still knows, by the name of the array: an id alone may be another's by now."""
        if not arrays:
            return {}
        ids = ",".join(str(one.job_id) for one in arrays)
        done = self.commands.attempt(
            "squeue", "--noheader", "--array", "--states=all", f"--jobs={ids}", f"--format={QUEUE_FORMAT}"
        )
        if done.returncode and _UNKNOWN_JOB not in done.stderr:
            raise SlurmError(f"squeue: {done.stderr.strip()[:1000]}")
        found: dict[str, dict[int | None, Said]] = {}
        for _, name, number, said in queue_lines(done.stdout.splitlines()):
            found.setdefault(name, {})[number] = said
        return {one.name: _spread(found[one.name], one.size) for one in arrays if one.name in found}

    def _elements(self, array: Array, queue: dict[int, Said]) -> list[Element]:
        spool = Spool(self.site.spool, array.token)
        found = [decide(number, queue.get(number), spool) for number in range(array.size)]
        if any(one.state is ElementState.FAILED and one.code is one.signal is None for one in found):
            found = self._again(array, found, self._shown(array), spool, ElementState.FAILED)
        if any(one.state is ElementState.VANISHED for one in found):
            found = self._again(array, found, self._completed(array), spool, ElementState.VANISHED)
        return found

    def _again(
        self, array: Array, found: list[Element], told: dict[int, Said], spool: Spool, which: ElementState
    ) -> list[Element]:
        return [
            decide(one.number, told[one.number], spool) if one.state is which and one.number in told else one
            for one in found
        ]

    def _shown(self, array: Array) -> dict[int, Said]:
        """What squeue does not say: the exit codes."""
        done = self.commands.attempt("scontrol", "show", "job", "--oneliner", str(array.job_id))
        return dict(records(done.stdout.splitlines(), array.name))

    def _completed(self, array: Array) -> dict[int, Said]:
        """What Slurm wrote down when jobs ended, if the site lets us read it."""
        if self.site.jobcomp is None:
            return {}
        try:
            with Path(self.site.jobcomp).open("rb") as stream:
                stream.seek(max(0, stream.seek(0, 2) - JOBCOMP_BYTES))
                text = stream.read(JOBCOMP_BYTES).decode(errors="replace")
        except OSError as error:
            raise SlurmError(f"jobcomp: {error}") from None
        return dict(records(text.splitlines(), array.name))

    def _adopt(self, spool: Spool) -> tuple[int, int] | None:
        """The id of an array that was submitted by somebody who could not write it down."""
        wanted = _name(spool.token)
        look = ("--noheader", "--array", "--states=all", f"--name={wanted}", f"--format={QUEUE_FORMAT}")
        for job_id, name, _, _ in queue_lines(self.commands.run("squeue", *look).splitlines()):
            if name == wanted:
                size = spool.size()
                spool.remember(job_id, size)
                return job_id, size
        return None


def _job_id(said: str) -> int:
    """Of `4711` or `4711;cluster`."""
    number = said.strip().partition(";")[0]
    if not number.isdecimal():
        raise SlurmError(f"sbatch gave no job id, but {said.strip()[:200]!r}")
    return int(number)


def _spread(found: Mapping[int | None, Said], size: int) -> dict[int, Said]:
    """By element. The record without a number is that of all that never began and are not named."""
    rest = found.get(None)
    return {n: said for n in range(size) if (said := found.get(n, rest)) is not None}


def _checked(words: Sequence[str]) -> tuple[str, ...]:
    try:
        return _WORDS.validate_python(tuple(words))
    except ValidationError as error:
        raise UsageError(f"the command {list(words)!r}: {error.errors()[0]['msg']}") from None
