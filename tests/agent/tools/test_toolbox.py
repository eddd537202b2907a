"""Calls of MCP servers among those of sciagent's own tools."""

from __future__ import annotations

import sys
from pathlib import Path

from sciagent.agent.messages_sampling_and_policy_client import Message, ToolCall
from sciagent.agent.tools.mcp_client import Server, Servers
from sciagent.agent.tools.toolbox import Toolbox
from tests.support.mcp_servers import SERVER
from tests.support.memory_bench import MemoryBench


def test_what_comes_after_finish_is_not_called(tmp_path: Path) -> None:
    servers = Servers([Server("lit", ("search",), 20, (sys.executable, str(SERVER), str(tmp_path)), tmp_path)])
    toolbox = Toolbox(["finish"], foreign=servers)
    call = {"id": "1", "name": "lit_search", "arguments": '{"query": "x"}'}
    ends = {"id": "0", "name": "finish", "arguments": '{"reason": ""}'}
    message = Message("assistant", "", calls=(ToolCall(**ends), ToolCall(**call)))
    fetched = toolbox.fetch(message)
    servers.close()
    assert fetched == {}
    seen = toolbox.run(message, MemoryBench("CCO"), 1, fetched)
    assert not seen.finished and "came after finish" in seen.messages[1].content
