"""`sciagent doctor`, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.typed import call, data


def test_a_ledger_that_is_not_there_is_absent_and_engines_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    checks = {check["what"]: check for check in data("doctor")}
    assert checks["rdkit"]["state"] == checks["machine"]["state"] == checks["molecule.checks"]["state"] == "ok"
    assert checks["ledger"] == {
        "what": "ledger",
        "state": "absent",
        "detail": f"{tmp_path / 'sciagent.db'} (made by the first run)",
    }
    assert not list(tmp_path.iterdir())
    assert "absent  ledger" in call("doctor").output  # other tests may have installed a verifier that is broken
