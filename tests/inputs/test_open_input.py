"""Files that end no campaign and hang none."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from sciagent.errors import InputFileError
from sciagent.inputs import open_input as files
from sciagent.inputs.open_input import open_input


def test_plain_and_packed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_bytes(b"CCO\n")
    (tmp_path / "a.smi.gz").write_bytes(gzip.compress(b"CCO\n" * 50_000))
    with open_input(tmp_path / "a.smi") as plain, open_input(tmp_path / "a.smi.gz") as packed:
        assert plain.read() == b"CCO\n"
        assert packed.readline() == b"CCO\n" and len(packed.read()) == 199_996


def test_a_device_or_pipe_behind_a_link_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.csv").symlink_to("/dev/zero")
    for name in ("pipe", "link.csv", "."):
        with pytest.raises(InputFileError, match=":1:1: not a regular file"):
            open_input(tmp_path / name)
    with pytest.raises(InputFileError, match=":1:1: cannot be read: No such file"):
        open_input(tmp_path / "nowhere")
    with pytest.raises(InputFileError, match="is no name of a file"):
        open_input(Path("a\0b"))


def test_a_file_that_unpacks_to_too_much_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RATIO_FREE", 1 << 20)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(bytes(8 << 20)))
    with (
        pytest.raises(InputFileError, match=r"bomb\.csv\.gz:1:1: unpacks to more than"),
        open_input(tmp_path / "bomb.csv.gz") as file,
    ):
        file.read()


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"CCO" * 100)[:-9], gzip.compress(b"x")[:10] + b"\xff" * 9],
    ids=["plain", "cut", "garbled"],  # packed bytes hold the time, and every test process must collect the same names
)
def test_a_damaged_packed_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.smi.gz").write_bytes(content)
    with (
        pytest.raises(InputFileError, match=r"a\.smi\.gz:1:1: cannot be unpacked"),
        open_input(tmp_path / "a.smi.gz") as file,
    ):
        file.read()
