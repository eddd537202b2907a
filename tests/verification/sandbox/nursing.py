"""Workers without a nursery of another test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sciagent.chemistry.molecule import Molecule
from sciagent.verification.sandbox.host import HostResult, Limits, Request, Worker
from sciagent.verification.sandbox.nursery_pool_and_links import nurseries

METHANE = Molecule.from_payload({"smiles": "C", "multiplicity": 1})


@pytest.fixture(autouse=True)
def fresh(misbehaving: Path) -> Iterator[None]:
    """No nursery of another test."""
    nurseries.close()
    yield
    nurseries.close()


def verify(worker: Worker, verifier: str = "bad.noop", **settings: object) -> HostResult:
    return worker.run(Request(verifier, settings, (METHANE,), Limits(20, 300)))[0]


def within(seconds: float, true: Callable[[], object]) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(true())
