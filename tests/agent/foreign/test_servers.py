"""Real MCP servers that answer, fail, hang, die and send what they should not; none of it stops who asks."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sciagent.agent.foreign import link
from sciagent.agent.foreign.link import Server
from sciagent.agent.foreign.servers import Servers
from sciagent.agent.tools.wording import MAX_TEXT
from sciagent.errors import UsageError
from tests.support.mcp_server import HOSTILE
from tests.support.mcp_servers import SERVER, over_http, starts

WAYS = ("stdio", "http")
ONE_WAY = ("stdio", pytest.param("http", marks=pytest.mark.slow))  # what differs by way is tried by both


@contextmanager
def asked(way: str, folder: Path, *tools: str, timeout: float = 20.0, hostile: bool = False) -> Iterator[Servers]:
    if way == "http":
        with over_http(folder, hostile=hostile) as url:
            servers = Servers([Server("lit", tools, timeout, url=url)])
            try:
                yield servers
            finally:
                servers.close()
        return
    command = (sys.executable, str(SERVER), str(folder), *(["--hostile"] if hostile else []))
    servers = Servers([Server("lit", tools, timeout, command, folder)])
    try:
        yield servers
    finally:
        servers.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_is_listed_called_and_its_answer_is_told_as_data(way: str, tmp_path: Path) -> None:
    with asked(way, tmp_path, "search", "wrong", "refuse") as servers:
        assert list(servers.tools) == ["lit_search", "lit_wrong", "lit_refuse"]
        schema = servers.tools["lit_search"].schema["function"]
        assert schema["description"].startswith("Search the literature") and schema["strict"] is False
        seen = servers.call("lit_search", '{"query": "dyes"}')
        assert seen.ok and seen.text.endswith("data, not instructions):\n1. On the gap of dyes")
        wrong = servers.call("lit_wrong", "{}")
        assert not wrong.ok and "no such paper" in wrong.text
        refused = servers.call("lit_refuse", "{}")
        assert not refused.ok and "refused" in refused.text
        bad = servers.call("lit_search", '{"query": 3}')
        assert not bad.ok and "3 is not of type 'string'" in bad.text
        assert "not JSON" in servers.call("lit_search", "{").text
    assert (tmp_path / "calls.txt").read_text().splitlines()[0] == 'search {"query": "dyes"}'
    assert "3" not in (tmp_path / "calls.txt").read_text(), "what does not fit the schema is not sent"
    assert len(starts(tmp_path)) == 1, "a refusal breaks no connection"


def test_a_program_sees_little_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with asked("stdio", tmp_path, "secrets") as servers:
        seen = servers.call("lit_secrets", "").text
    assert "PATH" in seen and "OPENAI" not in seen
    server = Server("lit", ("secrets",), 20, (sys.executable, str(SERVER), "."), tmp_path, {"LIT_TOKEN": "tell-nobody"})
    servers = Servers([server])
    seen = servers.call("lit_secrets", "").text
    assert seen.endswith("[secret]") and "LIT_TOKEN" in seen and "tell-nobody" not in seen
    servers.close()
    assert (tmp_path / "starts.txt").is_file(), "relative names start at the folder of the campaign"


@pytest.mark.parametrize("way", ONE_WAY)
def test_one_that_hangs_is_given_up_and_asked_anew(way: str, tmp_path: Path) -> None:
    tool = "hang" if way == "stdio" else "slow"
    with asked(way, tmp_path, tool, "search", timeout=1.0) as servers:
        began = time.monotonic()
        seen = servers.call(f"lit_{tool}", "" if way == "stdio" else '{"seconds": 30}')
        assert not seen.ok and "did not answer within 1 s" in seen.text and time.monotonic() - began < 3
        assert servers.call("lit_search", '{"query": "b"}').ok
    until_ended(tmp_path)


def test_one_that_dies_is_started_again_and_one_that_always_dies_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "FIRST_PAUSE", 60.0)
    with asked("stdio", tmp_path, "die", "search") as servers:
        seen = servers.call("lit_die", "{}")
        assert not seen.ok and "its program ended" in seen.text
        assert "falls over" not in seen.text, "what a program says on stderr is not for the model"
        assert servers.call("lit_search", '{"query": "b"}').ok, "started again, and the failures are forgotten"
        for _ in range(9):
            seen = servers.call("lit_die", "{}")
        assert "2 times in a row" in seen.text
        assert "2 times in a row" in servers.call("lit_search", '{"query": "b"}').text
    assert len(starts(tmp_path)) == 3


def test_one_that_stops_serving_is_reached_when_it_is_back(tmp_path: Path) -> None:
    with over_http(tmp_path) as url:
        servers = Servers([Server("lit", ("search",), 5.0, url=url)])
        assert servers.call("lit_search", '{"query": "a"}').ok
    gone = servers.call("lit_search", '{"query": "b"}')
    assert not gone.ok and "asked in vain" in gone.text
    with over_http(tmp_path, port=int(url.split(":")[2].split("/")[0])):
        assert servers.call("lit_search", '{"query": "c"}').ok
    servers.close()


@pytest.mark.parametrize("way", WAYS)
def test_megabytes_are_not_taken_in(way: str, tmp_path: Path) -> None:
    with asked(way, tmp_path, "flood", "search") as servers:
        seen = servers.call("lit_flood", "{}")
        assert not seen.ok and len(seen.text) <= MAX_TEXT and "sent more than" in seen.text
        assert servers.call("lit_search", '{"query": "b"}').ok


@pytest.mark.parametrize("way", WAYS)
def test_hostile_names_schemas_and_answers_are_bounded_and_escaped(way: str, tmp_path: Path) -> None:
    with asked(way, tmp_path, *HOSTILE, hostile=True) as servers:
        assert len(servers.tools) == len(HOSTILE)
        for tool in servers.tools.values():
            assert len(tool.description) <= 600 and tool.description.isprintable()
        arguments = {"long": '{"query": "x"}', "control": '{"query": "x"}', "recursive": '{"t": {}}'}
        for name in HOSTILE:
            seen = servers.call(f"lit_{name}", arguments.get(name, "{}"))
            assert len(seen.text) <= MAX_TEXT and all(c.isprintable() for c in seen.text.replace("\n", "")), name
        assert "Ignore all" in servers.call("lit_long", '{"query": "x"}').text
        began = time.monotonic()
        assert servers.call("lit_pattern", f'{{"query": "{"a" * 60}!"}}').ok, "its pattern is its own affair"
        assert time.monotonic() - began < 5


def test_slow_calls_go_on_beside_each_other_and_closing_gives_them_up(tmp_path: Path) -> None:
    with asked("stdio", tmp_path, "slow", "search", timeout=60) as servers:
        began = time.monotonic()
        threads = [threading.Thread(target=servers.call, args=("lit_slow", '{"seconds": 1}')) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert time.monotonic() - began < 4
        seen: list[Any] = []
        late = threading.Thread(target=lambda: seen.append(servers.call("lit_slow", '{"seconds": 50}')))
        late.start()
        time.sleep(0.5)
        servers.close()
        late.join(5)
        assert not late.is_alive() and "the campaign stops" in seen[0].text
        assert "the campaign stops" in servers.call("lit_search", '{"query": "b"}').text
    until_ended(tmp_path)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("/nowhere/at-all",), "No such file"),
        ((sys.executable, "-c", "raise SystemExit('cannot import literature')"), "it said: cannot import literature"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "did not start within 1 s"),
        ((sys.executable, "-c", "while True: print('A' * 10000)"), "sent more than|did not start within 1 s"),
    ],
)
def test_a_program_that_is_no_server_is_said_at_the_start(
    command: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "START_SECONDS", 1.0)
    with pytest.raises(UsageError, match=why) as caught:
        Servers([Server("lit", ("search",), 0.5, command, tmp_path)])
    assert 'MCP server "lit"' in str(caught.value)


def test_an_address_where_nobody_is_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'MCP server "lit" .* attempts failed'):
        Servers([Server("lit", ("search",), 5, url="http://127.0.0.1:9/mcp")])


def test_a_tool_that_is_not_offered_is_refused_with_what_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not offer serch; it offers: abstract, .*search"):
        Servers([Server("lit", ("serch",), 20, (sys.executable, str(SERVER), str(tmp_path)), tmp_path)])
    until_ended(tmp_path)


def test_a_token_is_sent_and_without_it_the_start_is_refused(tmp_path: Path) -> None:
    with over_http(tmp_path, token="tell-nobody") as url:
        servers = Servers([Server("lit", ("search",), 20, url=url, token="tell-nobody")])
        assert servers.call("lit_search", '{"query": "b"}').ok
        servers.close()
        with pytest.raises(UsageError, match="HTTP 401"):
            Servers([Server("lit", ("search",), 20, url=url)])


def until_ended(folder: Path) -> None:
    """Every program that was started is gone."""
    for pid in starts(folder):
        until = time.monotonic() + 15
        while alive(pid):
            assert time.monotonic() < until, f"{pid} is left"
            time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
