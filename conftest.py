"""Settings that must be made before anything is imported: each test has one thread, and modules are compiled once."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

pytest_plugins = ["tests.support.time_limits"]
TESTS = Path(__file__).parent / "tests"
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of some thousand processes compiles what it imports
sys.dont_write_bytecode = False


def pytest_xdist_auto_num_workers() -> int | None:
    """Half as many processes again as cores: a good part of what tests do is to wait for other processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else cores + (cores + 1) // 2


FOLDERS = pytest.StashKey[list[pytest.Item | pytest.Collector]]()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each worker begins with another folder of tests. In a fresh clone it then finds the modules of the other folders
    compiled by the other workers; in the same order, all would compile every module at the same time."""
    report = yield
    if collector.path == TESTS and isinstance(collector, pytest.Dir | pytest.Package):
        folders = collector.config.stash[FOLDERS] = report.result
        first = len(folders) * int(WORKER.removeprefix("gw")) // WORKERS
        report.result = folders[first:] + folders[:first]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests run in the order of their folders nevertheless, which has to be the same for all workers."""
    if folders := config.stash.get(FOLDERS, []):
        place = {folder: number for number, folder in enumerate(folders)}
        items.sort(key=lambda item: min(place.get(node, len(place)) for node in item.listchain()))
