"""A server that is a program of ours: what it sees, and what it may send."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sciagent.agent.tools import bound_mcp_server_output, mcp_client
from sciagent.agent.tools.mcp_client import Server, Servers
from sciagent.domain.safe_text_and_durations import MAX_OBSERVATION
from sciagent.errors import UsageError
from tests.agent.tools.asking import WAYS, asked
from tests.support.mcp_servers import SERVER


def test_a_program_sees_little_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    server = Server("lit", ("secrets",), 20, (sys.executable, str(SERVER), "."), tmp_path, {"LIT_TOKEN": "tell-nobody"})
    servers = Servers([server])
    seen = servers.call("lit_secrets", "").text
    assert "PATH" in seen and "OPENAI" not in seen
    assert seen.endswith("[secret]") and "LIT_TOKEN" in seen and "tell-nobody" not in seen
    servers.close()
    assert (tmp_path / "starts.txt").is_file(), "relative names start at the folder of the campaign"


@pytest.mark.parametrize("way", WAYS)
def test_megabytes_are_not_taken_in(way: str, tmp_path: Path) -> None:
    with asked(way, tmp_path, "flood", "search") as servers:
        seen = servers.call("lit_flood", "{}")
        assert not seen.ok and len(seen.text) <= MAX_OBSERVATION and "sent more than" in seen.text
        assert servers.call("lit_search", '{"query": "b"}').ok


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("/nowhere/at-all",), "No such file"),
        (
            (sys.executable, "-c", "raise SystemExit('cannot import literature')"),
            "it printed: cannot import literature",
        ),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "did not start within 1 s"),
        ((sys.executable, "-c", "while True: print('A' * 10000)"), "sent more than|did not start within 1 s"),
    ],
)
def test_a_program_that_is_no_server_is_said_at_the_start(
    command: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_client, "START_SECONDS", 1.0)
    with pytest.raises(UsageError, match=why) as caught:
        Servers([Server("lit", ("search",), 0.5, command, tmp_path)])
    assert 'MCP server "lit"' in str(caught.value)


def test_only_the_start_of_a_programs_errors_is_handed_on() -> None:
    program = [sys.executable, "-c", "import sys; [sys.stderr.write('E' * 1000) for _ in range(1000)]; print('done')"]
    ran = subprocess.run(
        [sys.executable, "-I", bound_mcp_server_output.__file__, "100", *program], capture_output=True, timeout=20
    )
    assert (ran.returncode, ran.stdout) == (0, b"done\n")
    assert ran.stderr == b"E" * bound_mcp_server_output.ERROR_BYTES
