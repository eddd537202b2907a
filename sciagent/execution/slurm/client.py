"""Submits job arrays to Slurm, and reads their states without accounting (sacct)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sciagent.errors import SlurmError
from sciagent.execution.slurm.commands import TIMEOUT_SECONDS, Commands
from sciagent.execution.slurm.partition_choice import ResourceRequest
from sciagent.execution.slurm.script import WARNING_SIGNAL, render
from sciagent.execution.slurm.site import SiteProfile
from sciagent.execution.slurm.spool import Spool
from sciagent.execution.slurm.states import QUEUE_FORMAT, ElementStatus, element_status, queue_lines

COMMAND = ("-m", "sciagent", "worker", "--from")  # arguments of the site's python in each element


class Slurm:
    """Slurm at one site. All methods raise SlurmError when Slurm refuses or does not answer.

    variables: environment of the jobs, in addition to the profile's.
    """

    def __init__(self, site: SiteProfile, variables: Mapping[str, str] | None = None) -> None:
        self.site, self._variables = site, dict(variables or {})
        self.commands = Commands(site)

    def submit(
        self, array: Spool, request: ResourceRequest, elements: Sequence[Any], command: Sequence[str] = COMMAND
    ) -> None:
        """Submit an array. elements: one JSON value per element. Each element runs the command with the path of a file,
        from which `spool.own_element` reads its value."""
        extra = self._variables | self.commands.passed()
        array.write(elements, render(self.site))
        limit = f"%{self.site.max_running}" if self.site.max_running else ""
        try:
            self.commands.run(
                "sbatch",
                f"--array=0-{len(elements) - 1}{limit}",
                f"--job-name={array.name}",
                f"--chdir={array.folder}",
                f"--output={array.folder}/out.%a",
                *self._sbatch_options(request),
                str(array.script),
                str(array.folder),
                self.site.python,
                *command,
                str(array.elements),
                extra=extra,
            )
        except SlurmError:
            array.remove()  # if Slurm accepted the array after all, its elements find no task
            raise

    def rehearse(self, request: ResourceRequest) -> str:
        """Slurm's forecast of where and when such a job would start. Nothing is submitted."""
        done = self.commands.run("sbatch", "--test-only", *self._sbatch_options(request), "--wrap=true")
        return " ".join(line.removeprefix("sbatch: ") for line in done.stderr.splitlines())[:1000]

    def states(self, arrays: Collection[Spool]) -> dict[Spool, list[ElementStatus]]:
        """The status of every element of each array, from one squeue call and the files in the spool folders. A new
        array that squeue does not show is left out, since sbatch may not have finished."""
        words: dict[str, dict[int | None, str]] = {}
        if arrays:
            names = ",".join(array.name for array in arrays)
            shown = self.commands.run(
                "squeue", "--noheader", "--array", "--states=all", f"--name={names}", f"--format={QUEUE_FORMAT}"
            )
            for name, number, word in queue_lines(shown.stdout.splitlines()):
                words.setdefault(name, {})[number] = word
        return {
            array: [_status(array, number, words.get(array.name, {})) for number in range(len(array.tasks()))]
            for array in arrays
            if array.name in words or array.age() > 2 * TIMEOUT_SECONDS
        }

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


def _status(array: Spool, number: int, words: Mapping[int | None, str]) -> ElementStatus:
    """The status of one element. words: Slurm's state by element number; None: of elements that never started."""
    return element_status(number, words.get(number, words.get(None)), array)
