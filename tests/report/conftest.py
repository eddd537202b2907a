"""The campaign that reports and exports are tested on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent.store.ledger import Ledger
from tests.support.reported import Maker, dyes


@pytest.fixture(scope="module")
def told(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maker]:
    """`reported.dyes` in a ledger of its own, to be read only."""
    folder = tmp_path_factory.mktemp("dyes")
    path = folder / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    ledger = Ledger(str(path), artifacts=folder / "artifacts")
    yield dyes(ledger, folder)
    ledger.close()
