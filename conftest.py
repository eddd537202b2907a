"""Settings that must be made before anything is imported: each test has one thread, and modules are compiled once."""

import os
import sys

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of some thousand processes compiles what it imports
sys.dont_write_bytecode = False


def pytest_xdist_auto_num_workers() -> int | None:
    """Half as many processes again as cores: a good part of what tests do is to wait for other processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else cores + (cores + 1) // 2
