"""`sciagent environment serve` answers clients until it is interrupted, and leaves a whole ledger."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.campaigns import environment, sciagent
from tests.training.environment.served import FAST, Client

RULES = "prices: {core_seconds: 1.0e-4}\nunsettled: settled\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
    (tmp_path / "campaign.yaml").write_text(FAST, encoding="utf-8")
    (tmp_path / "rewards.yaml").write_text(RULES, encoding="utf-8")
    return tmp_path


@contextmanager
def begun(folder: Path, *options: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "sciagent", "environment", "serve", "campaign.yaml", "--rewards", "rewards.yaml"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([*command, *options], cwd=folder, env=environment(**more), **pipes)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_it_serves_until_it_is_interrupted(folder: Path) -> None:
    with begun(folder, "--port", "0", "--turns", "2", "--allow-origin", "https://lab.example/") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving rolled at http://127.0.0.1:")
        client = Client(line.split()[-1])
        assert Client(client.url, Origin="https://lab.example")("/tasks")[0] == 200
        assert Client(client.url, Origin="https://evil.example")("/tasks")[0] == 403
        _, opened = client("/episodes", {"policy": "p@1"})
        assert (
            client(f"/episodes/{opened['episode']}/calls", {"name": "propose", "arguments": {"smiles": "CCCO"}})[0]
            == 200
        )
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 0, said
    assert "the environment was closed" in said and "Traceback" not in said
    published = sciagent("rewards", "publish", "rewards.yaml", "--campaign", "rolled", "--json", cwd=folder)
    assert (published["episodes"], published["rewarded"]) == (1, 1)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--host", "0.0.0.0"), "others reach 0.0.0.0: set SCIAGENT_ENVIRONMENT_TOKEN"),
        (("--allow-origin", "*"), "--allow-origin '*': name a scheme, a host"),
        (("--protocol", "gym"), 'protocol: "gym" is none of http, openenv'),
        (("--protocol", "openenv"), "--protocol openenv needs the package openenv"),
    ],
)
def test_a_wrong_call_ends_with_2(folder: Path, options: tuple[str, ...], fault: str) -> None:
    command = ("environment", "serve", "campaign.yaml", "--rewards", "rewards.yaml")
    said = sciagent(*command, *options, cwd=folder, expect=2).stderr
    assert fault in " ".join(said.split())
