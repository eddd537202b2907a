"""A seeded campaign, and a process for its fast rung."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.store.database.ledger import Ledger
from sciagent.verification.sandbox.host import Worker
from tests.training.rollouts.rolled import seeded


@pytest.fixture
def built(ledger: Ledger, tmp_path: Path) -> Built:
    return seeded(ledger, tmp_path)


@pytest.fixture
def worker(built: Built) -> Iterator[Worker]:
    with Worker(built.scratch(), preload=[rung.verifier.name for rung in built.fast]) as started:
        yield started


@pytest.fixture
def worker_of() -> Callable[[Built], Worker]:
    """Starts a process for the fast rungs of a campaign."""
    return lambda built: Worker(built.scratch(), preload=[rung.verifier.name for rung in built.fast])
