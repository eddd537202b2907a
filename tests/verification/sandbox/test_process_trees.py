"""A killed driver leaves no process and no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.verification.sandbox.working import MARK, carrying, wait_until

DRIVER = """
import sys
from pathlib import Path
from sciagent.chemistry.molecule import Molecule
from sciagent.verification.sandbox.host import Limits, Request, Worker

worker = Worker(Path(sys.argv[1]))
print("up", flush=True)
methane = Molecule.from_payload({"smiles": "C", "multiplicity": 1})
worker.run(Request(sys.argv[2], eval(sys.argv[3]), (methane,), Limits(500)))
"""


@pytest.mark.parametrize(("verifier", "settings"), [("bad.hang", {}), ("bad.forks", {"then_hang": True})])
def test_a_killed_driver_leaves_nothing(misbehaving: Path, tmp_path: Path, verifier: str, settings: Any) -> None:
    mark, scratch = uuid.uuid4().hex, tmp_path / "scratch"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(scratch), verifier, repr(settings)],
        env=os.environ | {MARK: mark},
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    assert driver.stdout and driver.stdout.readline() == b"up\n"
    wanted = (
        4 if verifier == "bad.hang" else 4 + 2 * 3
    )  # driver, nursery, zygote, child; each daemon with a child of its own
    assert wait_until(lambda: len(carrying(mark)) >= wanted, 20)
    assert list(scratch.iterdir())
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert wait_until(lambda: not carrying(mark) and not list(scratch.iterdir()), 15), carrying(mark)


def test_a_driver_killed_while_its_worker_imports_leaves_nothing(tmp_path: Path) -> None:
    mark, scratch = uuid.uuid4().hex, tmp_path / "scratch"
    code = DRIVER.replace("Worker(Path(sys.argv[1]))", "Worker(Path(sys.argv[1]), preload=['pyscf.scf'])")
    driver = subprocess.Popen(
        [sys.executable, "-c", code, str(scratch), "pyscf.scf", "{}"],
        env=os.environ | {MARK: mark},
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    assert driver.stdout and driver.stdout.readline() == b"up\n"
    driver.kill()
    driver.wait()
    driver.stdout.close()
    assert wait_until(lambda: not carrying(mark) and not list(scratch.iterdir()), 15), carrying(mark)
