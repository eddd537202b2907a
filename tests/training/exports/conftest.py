"""Data sets that exports are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.exported import four_siblings, write_datasets


@pytest.fixture(scope="module")
def sets(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set of each kind."""
    folder = tmp_path_factory.mktemp("sets")
    return write_datasets(four_siblings(migrated_sqlite, folder), folder)
