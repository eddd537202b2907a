"""The time that commands take which compute nothing, in a fresh interpreter, on a campaign of a few molecules.

    python -m benchmarks.commands.run --ledger sciagent.db --campaign NAME --write benchmarks/commands/result.json

CPU time is that of the process and its children, so that other work on the machine hardly changes it; on an idle
machine the wall time is nearly the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPEATS = 3


def commands(campaign: str, candidate: str) -> Mapping[str, tuple[str, ...]]:
    return {
        "help": ("--help",),
        "status": ("status", campaign),
        "best": ("best", campaign),
        "explain": ("explain", candidate, "--campaign", campaign),
        "verifiers": ("verifiers",),
        "export": ("export", campaign, "-o", str(Path(tempfile.mkdtemp()) / "export.csv")),
    }


def seconds_of(arguments: tuple[str, ...], ledger: str) -> float:
    """Returns the least CPU time of a few calls."""
    best = float("inf")
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        call = [sys.executable, "-m", "sciagent", *arguments]
        subprocess.run(call, env=os.environ | {"SCIAGENT_LEDGER": ledger}, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def measure(ledger: str, campaign: str, candidate: str) -> Mapping[str, Any]:
    """Returns {command: {cpu_seconds}}."""
    found = {name: seconds_of(words, ledger) for name, words in commands(campaign, candidate).items()}
    return {name: {"cpu_seconds": round(seconds, 2)} for name, seconds in found.items()}


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledger", default="sciagent.db")
    parser.add_argument("--campaign", default="quickstart")
    parser.add_argument("--candidate", default="c1ccccc1")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args(given)
    result = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "commands": measure(args.ledger, args.campaign, args.candidate),
    }
    text = json.dumps(result, indent=2) + "\n"
    if args.write:
        args.write.write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
