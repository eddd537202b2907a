"""A warm worker, of which nothing may be left after a test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sciagent.verification.sandbox.host import Worker
from sciagent.verification.sandbox.nursery_pool_and_links import nurseries
from tests.verification.sandbox.working import MARK, carrying


@pytest.fixture(scope="module")
def mark() -> Iterator[str]:
    """Stands in the environment of every process below this one that is started meanwhile, nurseries included."""
    nurseries.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, value := uuid.uuid4().hex)
        yield value
        nurseries.close()


@pytest.fixture(scope="module")
def shared(misbehaving: Path, mark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("scratch"), preload=["bad.noop"]) as worker:
        yield worker
    assert not worker.folder.exists()
    nurseries.close()
    assert not carrying(mark)


@pytest.fixture
def worker(shared: Worker, mark: str) -> Iterator[Worker]:
    """The warm worker; whatever the test had it run, nothing of it may be left."""
    yield shared
    assert psutil.Process(shared.pid).children(recursive=True) == []
    assert carrying(mark) <= {shared.pid, *nurseries.pids()}
    assert not list(shared.folder.glob("job-*"))
    assert not (shared.folder / "tmp").exists()
