"""A pytest plug-in: every test has a time limit, at which it fails under its own name and the others go on.

pytest-timeout ends a test by a signal, which becomes an exception in the main thread; its other method would end the
whole process, and with xdist all that this worker has in hand. An exception cannot end a call that never returns to
Python. So a watchdog of faulthandler prints the stacks and ends the process somewhat later; xdist then names the test
in which its worker ended, and starts another worker.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Generator

import pytest

LIMITS = {"slow": 3600.0, "long": 1200.0}
"""Time limits in seconds of the tests with these marks; of any other test that of pyproject.toml."""

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All tests that this process has collected, also those that it does not run."""

STDERR = pytest.StashKey[int]()
"""A file descriptor of the process's own standard error, which tests do not capture."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("watchdog_seconds", "time from a test's limit to the end of its process", default="60")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives each long or slow test its limit, before the marks deselect any."""
    for item in items:
        if item.get_closest_marker("timeout") is not None:
            continue
        seconds = next((limit for mark, limit in LIMITS.items() if item.get_closest_marker(mark)), None)
        if seconds is not None:
            item.add_marker(pytest.mark.timeout(seconds))
    config.stash[COLLECTED] = list(items)


def seconds_of(item: pytest.Item) -> float:
    """Returns the time limit of a test; 0 if it has none."""
    marker = item.get_closest_marker("timeout")
    if marker is None:
        return float(item.config.getini("timeout") or 0)
    return float(marker.args[0] if marker.args else marker.kwargs["timeout"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    seconds = seconds_of(item) + float(item.config.getini("watchdog_seconds"))
    faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
