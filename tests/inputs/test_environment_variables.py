"""Settings come from options, the environment or files, in this order."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import UsageError
from sciagent.execution.celery_executor_and_choice_by_name import broker_url
from sciagent.inputs.environment_variables import ledger_address

NAMES = ("SCIAGENT_LEDGER", "SCIAGENT_LEDGER_FILE", "SCIAGENT_BROKER", "SCIAGENT_BROKER_FILE")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_without_a_word_there_is_a_file_and_no_broker() -> None:
    assert ledger_address() == "sciagent.db"
    with pytest.raises(UsageError, match="no broker is named"):
        broker_url()


def test_secrets_come_from_the_environment_or_from_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCIAGENT_LEDGER", "postgresql://me:hidden@host/lab")
    file = tmp_path / "broker"
    file.write_text("amqp://me:hidden@host/lab\n")
    monkeypatch.setenv("SCIAGENT_BROKER_FILE", str(file))
    assert (ledger_address(), broker_url()) == ("postgresql://me:hidden@host/lab", "amqp://me:hidden@host/lab")
    assert (ledger_address("lab.db"), broker_url("redis://other")) == ("lab.db", "redis://other")


@pytest.mark.parametrize("text", ["", "\n", "one\ntwo\n", "x" * 5000, "\xff"])
def test_a_file_holds_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    file = tmp_path / "ledger"
    file.write_bytes(text.encode("latin-1"))
    monkeypatch.setenv("SCIAGENT_LEDGER_FILE", str(file))
    with pytest.raises(UsageError, match="SCIAGENT_LEDGER_FILE"):
        ledger_address()


def test_a_secret_in_two_places_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCIAGENT_BROKER", "redis://one")
    monkeypatch.setenv("SCIAGENT_BROKER_FILE", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match="both"):
        broker_url()
    monkeypatch.delenv("SCIAGENT_BROKER")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        broker_url()
