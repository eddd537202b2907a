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
N_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of some thousand processes compiles what it imports
sys.dont_write_bytecode = False


def pytest_xdist_auto_num_workers() -> int | None:
    """Returns 1.5 times the number of cores, since tests often wait for other processes; None if the environment sets
    the number."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2


FOLDERS = pytest.StashKey[list[pytest.Item | pytest.Collector]]()
"""The folders of tests, in the order in which pytest found them."""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each worker begins with another folder of tests. In a fresh clone it then finds the modules of the other folders
    compiled by the other workers; in the same order, all would compile every module at the same time."""
    report = yield
    if collector.path == TESTS and isinstance(collector, pytest.Dir | pytest.Package):
        folders = report.result
        collector.config.stash[FOLDERS] = folders
        worker_number = int(WORKER.removeprefix("gw"))
        first = len(folders) * worker_number // N_WORKERS
        report.result = folders[first:] + folders[:first]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts the tests by their folders: the order of the tests, unlike that of the imports, has to be the same for all
    workers."""
    folders = config.stash.get(FOLDERS, [])
    if not folders:
        return
    place_of_folder = {folder: place for place, folder in enumerate(folders)}

    def place(item: pytest.Item) -> int:
        """Returns the place of the folder that holds the test; other tests come last."""
        return min(place_of_folder.get(node, len(folders)) for node in item.listchain())

    items.sort(key=place)
