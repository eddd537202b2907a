"""A server that hangs, dies or sends too much is given up and asked anew."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sciagent.agent.tools import mcp_client
from sciagent.agent.tools.mcp_client import Server, Servers
from sciagent.errors import UsageError
from tests.agent.tools.asking import asked, until_ended
from tests.support.mcp_servers import over_http, starts

ONE_WAY = ("stdio", pytest.param("http", marks=pytest.mark.slow))  # what differs by way is tried by both


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
    monkeypatch.setattr(mcp_client, "FIRST_PAUSE", 60.0)
    with asked("stdio", tmp_path, "die", "search") as servers:
        seen = servers.call("lit_die", "{}")
        assert not seen.ok and "it ended" in seen.text
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


def test_a_token_is_sent_and_without_it_the_start_is_refused(tmp_path: Path) -> None:
    with over_http(tmp_path, token="tell-nobody") as url:
        servers = Servers([Server("lit", ("search",), 20, url=url, token="tell-nobody")])
        assert servers.call("lit_search", '{"query": "b"}').ok
        servers.close()
        with pytest.raises(UsageError, match="HTTP 401"):
            Servers([Server("lit", ("search",), 20, url=url)])
