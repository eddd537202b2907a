"""`sciagent gc` as it is typed."""

from __future__ import annotations

from pathlib import Path

from tests.support.typed import call, data


def test_gc_shows_first_and_removes_when_told(folder: Path) -> None:
    assert "nothing to clear up" in call("gc").output
    found = data("gc", "--keep-days", "0")
    assert found["deleted"] is False and found["removed"] == 0
