"""A campaign whose evidence the tests write."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.store.database.ledger import Ledger
from tests.support.rewarded import Rewarded, rewarded


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Rewarded:
    return rewarded(ledger, tmp_path)
