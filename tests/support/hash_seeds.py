"""Runs a program under two seeds of Python's hashes, on which the order of sets depends."""

from __future__ import annotations

import os
import subprocess
import sys


def outputs(program: str) -> set[str]:
    """Returns the different outputs of the program; one if it does not depend on the order of sets."""
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    run = [sys.executable, "-c", program]
    return {subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout for env in environments}
