"""`sciagent init` and `sciagent schema`, as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import load_spec
from tests.support.typed import data, refused, told


def test_init_writes_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "quickstart" in told("init", "--list")
    made = data("init", "mine", "--name", "my-dyes")["files"]
    spec = load_spec(tmp_path / "mine" / "my-dyes.yaml")
    assert spec.campaign == "my-dyes" and (tmp_path / "mine" / "README.md").read_text().startswith("# my-dyes")
    assert all((tmp_path / name).is_file() for name in made)
    assert "exists already" in refused("init", "mine", "--name", "my-dyes")
    assert 'did you mean "quickstart"' in refused("init", "other", "--template", "quikstart")
    assert "1 to 64 of a-z" in refused("init", "other", "--name", "My Dyes")
    assert "name the folder" in refused("init") and not (tmp_path / "other").exists()


def test_every_template_becomes_a_campaign_that_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for one in data("init", "--list"):
        data("init", one["name"], "--template", one["name"])
        assert load_spec(tmp_path / one["name"] / f"{one['name']}.yaml").campaign
