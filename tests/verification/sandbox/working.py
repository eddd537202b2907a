"""Runs verifiers that misbehave in a worker, and finds the processes they left."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.verification.sandbox.host import HostResult, Limits, Request, Worker

ETHANOL, *_ = ABC = tuple(
    Molecule.from_payload({"smiles": smiles, "multiplicity": 1}) for smiles in ("CCO", "CCN", "CCC", "CCF")
)
MARK = "SCIAGENT_TEST_MARK"
AMPLE = Limits(wall_seconds=20, memory_mb=300)


def carrying(mark: str) -> set[int]:
    """Processes, this one aside, that were started with the mark in their environment."""
    wanted, found = f"{MARK}={mark}".encode(), set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.add(int(folder.name))
            except OSError:
                continue
    return found


def run(
    worker: Worker, verifier: str, *candidates: Candidate, limits: Limits = AMPLE, **settings: Any
) -> list[HostResult]:
    return worker.run(Request(verifier, settings, candidates or (ETHANOL,), limits))


def said(results: list[HostResult]) -> list[str]:
    return [r.finding.outcome + (f"/{r.finding.reason}" if r.finding.reason else "") for r in results]


def wait_until(true: Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (now := true()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(now)
