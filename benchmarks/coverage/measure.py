"""Branch coverage of the default suite by package.

    pytest -n 2 --cov --cov-config=benchmarks/coverage/coverage.ini --cov-report=json:coverage.json
    python -m benchmarks.coverage.measure coverage.json

The second prints one line a package beside what `packages.json` has, and ends with 1 if a package is more than one
point below it. Processes that the tests start (workers, servers, commands) are not counted,
nor are the modules that run in them alone.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

AGREED = Path(__file__).with_name("packages.json")
IN_OTHER_PROCESSES = (
    "sciagent/verification/sandbox/zygote_nursery.py",
    "sciagent/verification/sandbox/zygote.py",
    "sciagent/verification/sandbox/supervise_job.py",
    "sciagent/verification/sandbox/job_process.py",
    "sciagent/execution/celery/worker.py",
    "sciagent/execution/celery/hardened_consumer_and_transport.py",
    "sciagent/execution/slurm/array_element.py",
)
"""Modules that hardly run in the process of a test, so that a line more in them looks like a line less covered."""
COUNTED = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def package_of(path: str) -> str:
    """Returns the package of a module: a room of sciagent, or a whole plug-in."""
    parts = Path(path).parts
    if parts[0] != "sciagent":
        return parts[1]
    return ".".join(parts[:2]).removesuffix(".py")


def by_package(files: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Sums the counts of coverage's JSON report. files: its key `files`."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path, file in files.items():
        if path in IN_OTHER_PROCESSES:
            continue
        for name in COUNTED:
            counts[package_of(path)][name] += file["summary"][name]
    return {package: dict(counts[package]) for package in sorted(counts)}


def percent(counts: Mapping[str, int]) -> float:
    """Returns the covered share of statements and branches together, as coverage's reports do."""
    possible = counts["num_statements"] + counts["num_branches"]
    covered = counts["covered_lines"] + counts["covered_branches"]
    return 100 * covered / possible if possible else 100.0


def main(report: str) -> int:
    now = by_package(json.loads(Path(report).read_text(encoding="utf-8"))["files"])
    before = json.loads(AGREED.read_text(encoding="utf-8"))
    lower = 0
    for package, counts in now.items():
        agreed = before.get(package)
        then = percent(agreed) if agreed else None
        fell = then is not None and percent(counts) < then - 1
        lower += fell
        was = "new" if then is None else f"{then:5.1f} %"
        sys.stdout.write(f"{package:32} {percent(counts):5.1f} %   {was}{'  LOWER' if fell else ''}\n")
    return int(lower > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
