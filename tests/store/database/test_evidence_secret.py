"""The secret that seals computed evidence: private, made once, and never in the database."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest

from sciagent.errors import LedgerError
from sciagent.store.database.evidence_secret import FILE_NAME, FILE_VARIABLE, EvidenceSecret

ONE = "ab" * 32
OTHER = "cd" * 32


def _first(folder: Path) -> str:
    return EvidenceSecret(folder).keys().seal("text")


def test_processes_that_need_it_at_once_make_one_private_file(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    assert EvidenceSecret(folder).known_keys() is None and not folder.exists()  # a check makes none
    with multiprocessing.get_context("fork").Pool(4) as pool:
        seals = pool.map(_first, [folder] * 16)
    assert len(set(seals)) == 1
    [file] = folder.iterdir()  # nothing half written is left
    assert file.name == FILE_NAME and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(bytes.fromhex(file.read_text(encoding="ascii"))) == 32


def test_the_first_of_several_secrets_seals_and_the_others_still_fit(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    file.write_text(f"{ONE}\n", encoding="ascii")
    old = EvidenceSecret(tmp_path).keys()
    seal = old.seal("text")
    file.write_text(f"{OTHER}\n{ONE}\n", encoding="ascii")
    both = EvidenceSecret(tmp_path).keys()
    assert both.fits(seal, "text") and not both.fits(seal, "texts")
    assert not both.seal("text").startswith(old.first) and not old.knows(both.seal("text"))
    assert not both.fits(f"{old.first}:{'0' * 64}", "text") and not both.fits("nonsense", "text")
    assert ONE[:16] not in seal


def test_a_named_file_is_never_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "elsewhere"
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    secret = EvidenceSecret(tmp_path)
    assert not secret.is_held and secret.known_keys() is None and not file.exists()
    with pytest.raises(LedgerError, match=rf"elsewhere cannot be read.*{FILE_VARIABLE}"):
        secret.keys()
    file.write_text(ONE, encoding="ascii")
    assert secret.is_held


@pytest.mark.parametrize("text", ["", "short", "ab" * 31, f"{ONE}\nno"])
def test_a_file_without_a_secret_says_what_to_write(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text, encoding="ascii")
    with pytest.raises(LedgerError, match="openssl rand -hex 32"):
        EvidenceSecret(tmp_path).known_keys()
