"""Runs Slurm's commands: by lists of arguments, never through a shell, with an environment of a few known variables."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sciagent.errors import SlurmError
from sciagent.execution.slurm.site import Site

TIMEOUT_SECONDS = 60.0
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TZ", "SLURM_CONF", "SLURM_CONF_SERVER", "LD_LIBRARY_PATH")


class Commands:
    """sbatch, squeue, scontrol, scancel and sinfo of a site.

    Variables such as SBATCH_PARTITION or SQUEUE_FORMAT would change what is asked and how answers look; they stay out.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self._environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"LC_ALL": "C"}
        if site.slurm_conf is not None:
            self._environment["SLURM_CONF"] = site.slurm_conf

    def find(self, name: str) -> Path:
        """Where a command is. Raises SlurmError."""
        folder = self.site.slurm_bin
        found = shutil.which(name, path=folder if folder is not None else self._environment.get("PATH"))
        if found is None:
            raise SlurmError(f"{name} is not {f'in {folder}' if folder else 'on PATH'}; name its folder as slurm_bin")
        return Path(found)

    def passed(self) -> dict[str, str]:
        """The variables that jobs get from this process. Raises SlurmError if one is not set here."""
        if missing := [name for name in self.site.pass_environment if name not in os.environ]:
            raise SlurmError(f"pass_environment names {', '.join(missing)}, and that is not set here")
        return {name: os.environ[name] for name in self.site.pass_environment}

    def run(self, name: str, *words: str, extra: Mapping[str, str] | None = None) -> str:
        """What the command prints. extra: more variables for it. Raises SlurmError with Slurm's words."""
        done = self.attempt(name, *words, extra=extra)
        if done.returncode:
            raise SlurmError(f"{name}: {_said(name, done)}")
        return done.stdout

    def attempt(
        self, name: str, *words: str, extra: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """As `run`, but a refusal is the caller's to read. Raises SlurmError if the command cannot run, or hangs."""
        try:
            return subprocess.run(
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


def _said(name: str, done: subprocess.CompletedProcess[str]) -> str:
    """Each line without who says it, for that stands before all of them."""
    said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    lines = [line.removeprefix(f"{name}: ").removeprefix("error: ") for line in said]
    return "; ".join(lines)[:1000] or f"exit code {done.returncode}"
