"""Artifacts: under their content's hash, whole or not there."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sciagent.errors import LedgerError
from sciagent.store.database.ledger import ArtifactStore


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


def files(store: ArtifactStore) -> list[Path]:
    """Returns the files whose names are those of artifacts."""
    return [p for p in store.root.rglob("*") if p.is_file() and p.parent != store.root]


def test_the_name_is_the_content(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"SCF converged\n")
    sha256, size = store.put(tmp_path / "log")
    assert (sha256, size) == (hashlib.sha256(b"SCF converged\n").hexdigest(), 14)
    assert store.get(sha256) == b"SCF converged\n"
    assert store.put(tmp_path / "log") == (sha256, size)
    assert files(store) == [store.path(sha256)]
    assert list(store.root.glob(".incoming-*")) == []


def test_a_damaged_or_missing_artifact_is_noticed(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"abc")
    sha256, _ = store.put(tmp_path / "log")
    store.path(sha256).write_bytes(b"abd")
    with pytest.raises(LedgerError, match="damaged"):
        store.get(sha256)
    store.put(tmp_path / "log")  # put in again, it is whole again
    assert store.get(sha256) == b"abc"
    store.path(sha256).unlink()
    with pytest.raises(LedgerError, match="missing"):
        store.get(sha256)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "a" * 63, "a" * 62 + "/b"])
def test_only_a_hash_names_an_artifact(store: ArtifactStore, name: str) -> None:
    with pytest.raises(LedgerError, match="no SHA-256"):
        store.get(name)


def test_a_source_that_cannot_be_read_leaves_nothing(store: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.put(tmp_path / "nowhere")
    assert [p for p in store.root.rglob("*") if p.is_file()] == []


def test_a_kill_in_the_middle_leaves_nothing_visible(store: ArtifactStore, tmp_path: Path) -> None:
    source = tmp_path / "pipe"
    os.mkfifo(source)  # gives as much as we write, when we write it
    code = "import sys; from pathlib import Path; from sciagent.store.database.ledger import ArtifactStore as A; "
    code += "A(Path(sys.argv[1])).put(Path(sys.argv[2]))"
    process = subprocess.Popen([sys.executable, "-c", code, str(store.root), str(source)])
    with source.open("wb", buffering=0) as pipe:
        pipe.write(b"x" * 3_000_000)
        deadline = time.monotonic() + 20
        while not any(p.stat().st_size for p in store.root.glob(".incoming-*")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert files(store) == []
