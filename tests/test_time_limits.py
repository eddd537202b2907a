"""Every test has a time limit, and one that exceeds it is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.time_limits import COLLECTED, LIMITS, seconds_of

ROOT = Path(__file__).parent.parent
LARGEST_DEFAULT = 300.0  # seconds; with a larger one the hang of a test looks like a slow machine

HANGING = """
import time

import pytest


def test_that_hangs():
    time.sleep(60)


@pytest.mark.timeout(40)
def test_with_a_limit_of_its_own():
    time.sleep(2)


@pytest.mark.long
def test_that_is_long():
    time.sleep(2)
"""
DEAF = """
import signal
import time


def test_in_a_call_that_does_not_return():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(60)
"""


def test_every_collected_test_has_a_limit_and_long_and_slow_ones_their_own(request: pytest.FixtureRequest) -> None:
    """In a run of the whole suite these are all of its tests, also those that are not run."""
    items = request.config.stash[COLLECTED]
    assert request.node in items
    assert [item.nodeid for item in items if not seconds_of(item) > 0] == []
    marked = [item for item in items if any(item.get_closest_marker(mark) for mark in LIMITS)]
    assert [item.nodeid for item in marked if item.get_closest_marker("timeout") is None] == []
    default = float(request.config.getini("timeout"))
    assert 0 < default <= LARGEST_DEFAULT < min(LIMITS.values())


def run(folder: Path, text: str, workers: str) -> subprocess.CompletedProcess[str]:
    """Runs these tests with the project's settings, but limits of a second."""
    (folder / "test_hanging.py").write_text(text)
    options = ["-p", "tests.support.time_limits", "-m", "", "-o", "timeout=1", "-o", "watchdog_seconds=1"]
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), workers, *options, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)


def test_a_test_over_its_limit_is_named_and_the_others_run(tmp_path: Path) -> None:
    done = run(tmp_path, HANGING, "-n1")
    assert "test_that_hangs - Failed: Timeout (>1.0s) from pytest" in done.stdout, done.stdout
    assert "1 failed, 2 passed" in done.stdout


def test_a_test_that_no_signal_reaches_is_named_and_its_process_ends(tmp_path: Path) -> None:
    done = run(tmp_path, DEAF, "-n0")
    assert done.returncode != 0 and "in test_in_a_call_that_does_not_return" in done.stderr, done.stderr
