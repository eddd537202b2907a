"""The campaigns that reports and exports are tested on; those of a session are only read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sciagent.store.database.ledger import Ledger
from tests.api.conftest import done  # noqa: F401
from tests.support.pages import Parsed, rendered
from tests.support.reported import Maker, dyes
from tests.support.talked import Talker, talked


@contextmanager
def copied(migrated: Path, folder: Path) -> Iterator[Ledger]:
    path = folder / "ledger.db"
    path.write_bytes(migrated.read_bytes())
    ledger = Ledger(str(path), artifacts=folder / "artifacts")
    yield ledger
    ledger.close()


@pytest.fixture(scope="session")
def told(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maker]:
    """`reported.dyes` in a ledger of its own, to be read only."""
    folder = tmp_path_factory.mktemp("dyes")
    with copied(migrated_sqlite, folder) as ledger:
        yield dyes(ledger, folder)


@pytest.fixture(scope="session")
def several(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talker]:
    """`talked.talked` in a ledger of its own, to be read only."""
    folder = tmp_path_factory.mktemp("talked")
    with copied(migrated_sqlite, folder) as ledger:
        yield talked(ledger, folder)


@pytest.fixture
def own_ledger(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Ledger]:
    """An empty one on SQLite, to be written."""
    with copied(migrated_sqlite, tmp_path) as ledger:
        yield ledger


@pytest.fixture(scope="session")
def html(told: Maker) -> str:
    return rendered(told)


@pytest.fixture(scope="session")
def parsed(html: str) -> Parsed:
    return Parsed(html)


@pytest.fixture(scope="session")
def parsed_talks(several: Talker) -> Parsed:
    """The page of `several`."""
    return Parsed(rendered(several))
