"""The benchmark of the pages runs, in small, and measures what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_pages_are_timed_with_readers_and_a_driver(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks.web.run", "--candidates", "2000", "--users", "3", "--seconds", "8"]
    done = subprocess.run(
        [*command, "--jobs", "200", "--campaigns", "1", "--phase", "0.5", "-o", str(out)],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(out.read_text(encoding="utf-8"))
    assert told["readers"]["3"]["faults"] == 0 and told["readers"]["3"]["all"]["p95_ms"] > 0
    assert {"campaign", "list"} <= set(told["readers"]["3"]) and told["driver"]["ratio"] > 0
