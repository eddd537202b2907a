"""docs/environments.md shows what a served ladder replies, and its Python runs."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sciagent import Campaign
from sciagent.training.environment.http_server import EnvironmentServer, application, guarded, hosts_of
from tests.docs.pages import ROOT, blocks
from tests.training.environment.served import Client

PAGE = ROOT / "docs" / "environments.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
    for block in blocks("yaml", PAGE):
        (tmp_path / block.text.splitlines()[0].removeprefix("# ")).write_text(block.text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    server = EnvironmentServer("127.0.0.1", 0)
    with Campaign.from_yaml("ladder.yaml").environment("rewards.yaml") as environment:
        app = guarded(application(environment), None, hosts_of("127.0.0.1", None))
        thread = threading.Thread(target=server.serve, args=(app, environment), daemon=True)
        thread.start()
        yield Client(server.url)
    thread.join(timeout=20)


def shortened(value: Any) -> Any:
    """A reply as the page shows it: numbers with four digits, and long lists left out."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {name: shortened(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [shortened(entry) for entry in value] if len(value) < 2 else ["…"]
    return value


def test_the_page_shows_what_is_replied(client: Client) -> None:
    [session] = blocks("console", PAGE)
    lines = session.text.splitlines()
    for asked, replied in zip(lines[::2], lines[1::2], strict=True):
        match = re.fullmatch(r"\$ POST (\S+) (.*)", asked)
        assert match is not None
        status, reply = client(match[1], json.loads(match[2]))
        code, text = re.fullmatch(r"(?:(\d+) )?\{(.*)", replied).groups()  # type: ignore[union-attr]
        assert status == int(code or 200)
        assert shortened(reply) == json.loads("{" + text.replace("[…]", '["…"]')), asked


def test_the_python_of_the_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [block] = blocks("python environment", PAGE)
    exec(block.text, {})
    assert "#1 CCO: " in capsys.readouterr().out
