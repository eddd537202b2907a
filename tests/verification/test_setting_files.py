"""A file among a verifier's settings counts by its content, wherever it lies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.domain.properties_and_levels import QED
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    PropertyAtLevel,
    Settings,
    StructureFile,
    Tier,
    Verifier,
    at,
)


class NamesAFileSettings(Settings):
    known: StructureFile


class NamesAFile(Verifier[Any]):
    name = "toy.names_a_file"
    version = "1"
    tier = Tier.FAST
    Settings = NamesAFileSettings
    settings: NamesAFileSettings

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level("toy"), QED)

    def cost(self, candidate: Any) -> Cost:
        return Cost(core_seconds=1)

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        yield from ()


def put(folder: Path, text: str = "smiles\nCCO\n", name: str = "known.csv") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


def test_the_same_content_in_another_folder_is_the_same_setting(tmp_path):
    here, there = put(tmp_path / "a"), put(tmp_path / "b")
    one, other = (NamesAFile({"known": "known.csv"}, folder) for folder in (here, there))
    assert one.settings_hash == other.settings_hash
    assert one.settings.known.path != other.settings.known.path


def test_another_content_or_column_is_another_setting(tmp_path):
    before = NamesAFile({"known": "known.csv"}, put(tmp_path)).settings_hash
    after = NamesAFile({"known": "known.csv"}, put(tmp_path, "smiles\nCCN\n")).settings_hash
    column = NamesAFile({"known": {"path": "known.csv", "column": "structure"}}, tmp_path).settings_hash
    assert len({before, after, column}) == 3


def test_what_goes_into_ledgers_holds_no_path(tmp_path):
    verifier = NamesAFile({"known": "known.csv"}, put(tmp_path))
    digest = hashlib.sha256(b"smiles\nCCO\n").hexdigest()
    stored = verifier.settings.model_dump(mode="json")
    assert stored == {"known": {"name": "known.csv", "sha256": digest, "column": "smiles"}}


def test_the_process_that_runs_it_gets_the_path_and_the_same_identity(tmp_path):
    verifier = NamesAFile({"known": "known.csv"}, put(tmp_path))
    sent = NamesAFile(verifier.request_settings)
    assert sent.settings.known.check() == tmp_path / "known.csv"
    assert sent.settings_hash == verifier.settings_hash


def test_a_file_that_was_edited_meanwhile_is_noticed_by_who_opens_it(tmp_path):
    sent = NamesAFile(NamesAFile({"known": "known.csv"}, put(tmp_path)).request_settings)
    put(tmp_path, "smiles\nCCCO\n")
    with pytest.raises(SimulatorError, match=r"known.csv is gone or is not what it was"):
        sent.settings.known.check()
    (tmp_path / "known.csv").unlink()
    with pytest.raises(SimulatorError, match="bad_environment"):
        sent.settings.known.check()


def test_a_pinned_content_is_checked_when_the_campaign_is_read(tmp_path):
    pinned = {"path": "known.csv", "sha256": hashlib.sha256(b"smiles\nCCO\n").hexdigest()}
    assert NamesAFile({"known": pinned}, put(tmp_path)).settings.known.sha256 == pinned["sha256"]
    with pytest.raises(ValidationError, match="has the SHA-256"):
        NamesAFile({"known": pinned}, put(tmp_path, "smiles\nCCN\n"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nowhere.csv", r'"nowhere.csv" does not exist; relative paths start at'),
        (".", "is not a regular file"),
        ("/dev/zero", "is not a regular file"),
        ("notes.pdf", "no table of molecules"),
        ({"path": "known.csv", "sha256": "XYZ"}, "64 hexadecimal digits"),
        ({"path": "known.csv", "colum": "smiles"}, "Extra inputs"),
        ({"name": "known.csv", "sha256": "0" * 64}, "Field required"),
        ("", "at least 1 character"),
        (7, "valid dictionary"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, given, message):
    put(tmp_path)
    put(tmp_path, name="notes.pdf")
    with pytest.raises(ValidationError, match=message):
        NamesAFile({"known": given}, tmp_path)
