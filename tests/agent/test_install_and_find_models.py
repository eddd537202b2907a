"""Models on this machine: added, listed and removed as they are typed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from typer.testing import Result

from sciagent.agent import install_and_find_models as models
from sciagent.errors import UnknownNameError, UsageError
from tests.support.typed import invoked


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What looks like a model."""
    made = tmp_path / "some-model"
    made.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (made / name).write_text("{}")
    (made / "chat_template.jinja").write_text("{{ messages }}")
    (made / "model.safetensors").write_bytes(b"weights")
    return made


def call(*arguments: object) -> Result:
    return invoked(["models", *map(str, arguments)])


def test_a_folder_is_pointed_to_and_not_copied(home: Path, folder: Path) -> None:
    added = call(folder, "--name", "mine")
    assert added.exit_code == 0 and f"mine@{hashlib.sha256(b'weights').hexdigest()[:12]}" in added.stdout
    assert [path.name for path in (home / "mine").iterdir()] == ["model.json"]
    [one] = json.loads(call("--json").stdout)
    assert one["name"] == "mine" and one["folder"] == str(folder) and one["fault"] is None
    assert one["sha256"] == hashlib.sha256(b"weights").hexdigest()
    assert one["template_sha256"] == hashlib.sha256(b"{{ messages }}").hexdigest()
    assert "mine@" in call().stdout
    assert call("mine", "--remove").exit_code == 0
    assert (folder / "model.safetensors").read_bytes() == b"weights"
    assert call().stdout == "" and list(home.iterdir()) == []


def test_a_model_added_again_changes_nothing_unless_its_content_is_another(home: Path, folder: Path) -> None:
    first = call(folder)
    again = call(folder)
    assert (first.exit_code, again.exit_code, again.stdout) == (0, 0, first.stdout)
    assert "some-model is here already, with the same content" in again.stderr
    (folder / "model.safetensors").write_bytes(b"other weights")
    other = call(folder)
    assert isinstance(other.exception, UsageError) and "--name" in str(other.exception)


def test_a_name_is_the_folders_unless_another_is_given(home: Path, folder: Path) -> None:
    assert call(folder).exit_code == 0
    assert call(folder, "--name", "other").exit_code == 0
    assert [one.name for one in models.installed()] == ["other", "some-model"]


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../up", "/etc", "a\\b", "-x", ".hidden", "a\n", "x" * 65])
def test_a_name_is_no_path(home: Path, folder: Path, name: str) -> None:
    home.mkdir()
    (home.parent / "up").mkdir()
    for act in (lambda: models.add_folder(folder, name, print), lambda: models.remove(name), lambda: models.find(name)):
        with pytest.raises(UsageError, match="is no name"):
            act()
    for arguments in ((folder, f"--name={name}"), ("--remove", "--", name)):
        assert isinstance(call(*arguments).exception, UsageError) or (name == "" and arguments[0] == folder)
    assert (home.parent / "up").is_dir() and folder.is_dir()


def test_only_models_are_removed(home: Path, folder: Path, tmp_path: Path) -> None:
    (home / "notes").mkdir(parents=True)
    (home / "notes" / "text").write_text("kept")
    with pytest.raises(UnknownNameError):
        models.remove("notes")
    models.add_folder(folder, "mine", print)
    (home / "linked").symlink_to(home / "mine")
    models.remove("linked")
    assert models.find("mine").folder == folder and (home / "notes" / "text").exists()


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"])
def test_a_folder_that_is_no_chat_model_is_refused(home: Path, folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    refused = call(folder)
    assert isinstance(refused.exception, UsageError)
    assert missing.split(".")[-1] in str(refused.exception) and not list(home.glob("*"))


def test_weights_that_changed_or_went_are_noticed(home: Path, folder: Path) -> None:
    call(folder)
    weights = folder / "model.safetensors"
    stat = weights.stat()
    weights.write_bytes(b"changed")
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000))
    with pytest.raises(models.ModelError, match="changed since"):
        models.find("some-model")
    weights.unlink()
    assert "is gone" in call().stdout and call().exit_code == 0


def test_a_card_that_cannot_be_read_says_so(home: Path, folder: Path) -> None:
    call(folder)
    (home / "some-model" / "model.json").write_text('{"name": 1}')
    assert isinstance(call().exception, models.ModelError)
    assert call("some-model", "--remove").exit_code == 0
