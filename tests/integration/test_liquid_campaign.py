"""campaigns/liquid_solvents.yaml in a small form: its driver is killed twice in the middle of the dynamics."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.integration.test_kill import MARK, assert_nothing_left
from tests.support.campaigns import environment, sciagent

NAME = "liquid-solvents"
# Hot and compressed, the liquid's density forgets itself soon enough for eighty picoseconds. It is not measured.
SMALL = "{box: 20, nanoseconds: 0.08, equilibration: 0.02, replicas: 1, observables: [density, vaporisation], \
temperature: 480, pressure: 6000, platform: CPU, rdf: [[Cl, H]]}"
SOLVENTS = "smiles,name\nClCCl,dichloromethane\nCCCCCC,hexane\nCCCCCCCCCCCO,undecanol\n"


def write_small(folder: Path) -> Path:
    """The campaign with its ladder, for three molecules, of which one reaches the dynamics."""
    text = (ROOT / "campaigns" / "liquid_solvents.yaml").read_text(encoding="utf-8")
    for before, after in (
        ("{box: 22, nanoseconds: 0.1, equilibration: 0.05, replicas: 3}", SMALL),
        ("  - property: vaporisation_enthalpy ", "  - property: density "),
        ("    min: 36\n    unit: kJ/mol\n  - property: density\n    max: 0.95\n", "    min: 1.0\n"),
        ("workers: 2", "workers: 1"),
    ):
        assert before in text, f"the campaign has changed: {before}"
        text = text.replace(before, after)
    (folder / "liquid_solvents.csv").write_text(SOLVENTS, encoding="utf-8")
    file = folder / "liquid_solvents.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def chunks(folder: Path) -> dict[str, int]:
    """When each chunk was written, by its name; those of a later attempt are links."""
    written: dict[str, int] = {}
    for where, _, names in os.walk(folder):  # skips a folder that a worker removes meanwhile; rglob raises
        for name in names:
            if where.endswith("box0") and name.endswith(".zip"):
                with contextlib.suppress(FileNotFoundError):
                    written[name] = Path(where, name).stat().st_mtime_ns
    return written


def kill_after(folder: Path, n_chunks: int, *arguments: str) -> dict[str, int]:
    """Starts the driver, kills it once so many chunks are there, and returns them when all processes have ended."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-m", "sciagent", *arguments, "--quiet"],
        cwd=folder,
        env=environment(**{MARK: mark}),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 400
    while len(chunks(folder)) < n_chunks:
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < end, f"only {sorted(chunks(folder))}"
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert_nothing_left(mark)
    return chunks(folder)


@pytest.mark.long
def test_liquids_go_on_after_their_driver_was_killed_twice(tmp_path: Path) -> None:
    """In 80 ps the energy had 38 independent samples, of which 20 are needed.

    The trajectory is that of this kind of processor; on another one fewer may remain, and then the production has to be
    longer.
    """
    file = write_small(tmp_path)
    first = kill_after(tmp_path, 2, "run", file.name, "--ledger", "liquid.db")
    second = kill_after(tmp_path, 4, "resume", NAME, "--ledger", "liquid.db")
    assert len(first) >= 2 and len(second) >= 4
    assert {name: second[name] for name in first} == first, "what was done is not done again"
    sciagent("resume", NAME, "--ledger", "liquid.db", "--quiet", cwd=tmp_path, timeout=600)
    assert not chunks(tmp_path), "a job that has ended needs no checkpoint"

    with sqlite3.connect(tmp_path / "liquid.db") as ledger:
        found = ledger.execute("select verifier, outcome, diagnostics, detail from evidence").fetchall()
        lost = ledger.execute("select count(*) from attempt where state = 'lost'").fetchone()
    verifiers = [verifier for verifier, *_ in found]
    assert verifiers.count("molecule.checks") == 3, "one has too many atoms"
    assert verifiers.count("xtb.singlepoint") == 2, "one of them has no dipole"
    [(outcome, diagnostics, detail)] = [row[1:] for row in found if row[0] == "md.liquid"]
    assert outcome == "ok", detail
    assert lost == (2,)
    assert json.loads(diagnostics)["molecules"] == 80
    [best] = sciagent("best", NAME, "--json", "--ledger", "liquid.db", "-n", "1", cwd=tmp_path)
    assert best["hit"]
    page = (tmp_path / f"{NAME}.report.html").read_text(encoding="utf-8")
    assert "density of ClCCl" in page and "pair distributions of ClCCl" in page
