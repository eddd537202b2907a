"""`sciagent engines`, as it is typed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.typed import data, refused


def test_environments_are_added_listed_checked_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_ENGINES", str(tmp_path / "engines.toml"))
    monkeypatch.chdir(tmp_path)
    assert data("engines") == []
    added = data("engines", "own", "--python", sys.executable)
    assert added["python"] == sys.executable and added["sciagent_version"]
    with (tmp_path / "engines.toml").open("a") as file:
        file.write('[gone]\npython = "/no/python"\n')
    gone, own = data("engines")
    assert own == added | {"error": None}
    assert (gone["name"], gone["python_version"], gone["error"]) == (
        "gone",
        None,
        "/no/python does not start: No such file or directory",
    )
    checks = {check["what"]: check["state"] for check in data("doctor")}
    assert (checks["environment own"], checks["environment gone"]) == ("ok", "broken")
    assert data("engines", "gone", "--remove") == {"name": "gone", "removed": True}
    assert 'unknown environment "gone"; known: own' in refused("engines", "gone", "--remove")
