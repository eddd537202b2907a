"""`sciagent policy` as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.domain.policy_identity import IN_PROCESS, PolicyIdentity
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles
from tests.support.typed import data, told


def test_a_policy_is_listed_promoted_shown_and_rolled_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    with Ledger(str(tmp_path / "sciagent.db")).begin() as connection:
        old = policies_and_roles.enter(connection, PolicyIdentity("old@1", IN_PROCESS, "1" * 64))
        recipe = {"training": "grpo", "steps": 60}
        policies_and_roles.enter(
            connection, PolicyIdentity("new@2", IN_PROCESS, "2" * 64), parent_id=old, recipe=recipe
        )
    assert told("policy", "old", "--as", "production") == "production is old@1\n"
    why = ("--reason", "twice the hits")
    assert told("policy", "new", "--as", "production", *why) == "production is new@2; before, it was old@1\n"
    [first, second] = data("policy")
    assert first["roles"] == [] and second["roles"] == ["production"] and second["parent"] == "old@1"
    shown = told("policy", "production")
    assert "trained by grpo, from old@1" in shown and "steps\t60" in shown and "twice the hits" in shown
    assert data("policy", "production", "--rollback", "--reason", "it repeats itself")["policy"] == "old@1"
    assert "production" in told("policy").splitlines()[1]
