"""Real MCP servers that answer, fail, hang, die and send what they should not; none of it stops who asks."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sciagent.agent.tools.mcp_client import Server, Servers
from sciagent.domain.safe_text_and_durations import MAX_OBSERVATION
from sciagent.errors import UsageError
from tests.agent.tools.asking import WAYS, asked, until_ended
from tests.support.mcp_server import HOSTILE
from tests.support.mcp_servers import SERVER, starts


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


@pytest.mark.parametrize("way", WAYS)
def test_hostile_names_schemas_and_answers_are_bounded_and_escaped(way: str, tmp_path: Path) -> None:
    with asked(way, tmp_path, *HOSTILE, hostile=True) as servers:
        assert len(servers.tools) == len(HOSTILE)
        for tool in servers.tools.values():
            assert len(tool.description) <= 600 and tool.description.isprintable()
        arguments = {"long": '{"query": "x"}', "control": '{"query": "x"}', "recursive": '{"t": {}}'}
        for name in HOSTILE:
            seen = servers.call(f"lit_{name}", arguments.get(name, "{}"))
            assert len(seen.text) <= MAX_OBSERVATION and all(c.isprintable() for c in seen.text.replace("\n", "")), name
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


def test_an_address_where_nobody_is_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'MCP server "lit" .* attempts failed'):
        Servers([Server("lit", ("search",), 5, url="http://127.0.0.1:9/mcp")])


def test_a_tool_that_is_not_offered_is_refused_with_what_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not offer serch; it offers: abstract, .*search"):
        Servers([Server("lit", ("serch",), 20, (sys.executable, str(SERVER), str(tmp_path)), tmp_path)])
    until_ended(tmp_path)
