"""Runs Slurm's commands with argument lists (never through a shell), and an environment of a few known variables."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sciagent.errors import SlurmError
from sciagent.execution.slurm.site import SiteProfile

TIMEOUT_SECONDS = 60.0
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TZ", "SLURM_CONF", "SLURM_CONF_SERVER", "LD_LIBRARY_PATH")


class Commands:
    """sbatch, squeue, scontrol and sinfo of a site.

    Variables such as SBATCH_PARTITION or SQUEUE_FORMAT are not passed on, since they would change requests and output.
    """

    def __init__(self, site: SiteProfile) -> None:
        self.site = site
        self._environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"LC_ALL": "C"}
        if site.slurm_conf is not None:
            self._environment["SLURM_CONF"] = site.slurm_conf

    def find(self, name: str) -> Path:
        """Path of a command. Raises SlurmError."""
        folder = self.site.slurm_bin
        path = shutil.which(name, path=folder if folder is not None else self._environment.get("PATH"))
        if path is None:
            raise SlurmError(f"{name} is not {f'in {folder}' if folder else 'on PATH'}; name its folder as slurm_bin")
        return Path(path)

    def passed(self) -> dict[str, str]:
        """The environment variables that are passed on to jobs. Raises SlurmError if one of them is not set here."""
        if missing := [name for name in self.site.pass_environment if name not in os.environ]:
            raise SlurmError(f"pass_environment names {', '.join(missing)}, and that is not set here")
        return {name: os.environ[name] for name in self.site.pass_environment}

    def run(self, name: str, *words: str, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command. extra: additional environment variables. Raises SlurmError with Slurm's message if the command
        refuses, cannot run, or hangs."""
        try:
            done = subprocess.run(
                [self.find(name), *words],
                env={**self._environment, **(extra or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{name} did not answer in {TIMEOUT_SECONDS:.0f} s") from None
        except OSError as error:
            raise SlurmError(f"{name} cannot be run: {error.strerror or error}") from None
        if done.returncode:
            raise SlurmError(f"{name}: {_error_text(name, done)}")
        return done


def _error_text(name: str, done: subprocess.CompletedProcess[str]) -> str:
    """The command's error lines, without the command's name, which the caller adds."""
    lines_ = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    lines = [line.removeprefix(f"{name}: ").removeprefix("error: ") for line in lines_]
    return "; ".join(lines)[:1000] or f"exit code {done.returncode}"
