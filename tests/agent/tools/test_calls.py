"""A small model whose answers are held to the schema of a hostile server's tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sciagent.agent.foreign.link import Server
from sciagent.agent.foreign.servers import Servers
from sciagent.agent.messages import Message, Sampling, ToolCall
from sciagent.agent.policies.local import LocalPolicy
from sciagent.agent.tools.calls import Toolbox
from tests.support.mcp_server import HOSTILE
from tests.support.mcp_servers import SERVER
from tests.support.memory_bench import MemoryBench


def test_every_answer_of_a_small_model_is_a_call_that_is_carried_out(tiny: str, tmp_path: Path) -> None:
    command = (sys.executable, str(SERVER), str(tmp_path), "--hostile")
    servers, policy = Servers([Server("lit", tuple(HOSTILE), 20, command, tmp_path)]), LocalPolicy(tiny, device="cpu")
    try:
        toolbox = Toolbox([], structured=True, foreign=servers)
        assert toolbox.schemas == [] and set(toolbox.left_out) == {"lit_never", "lit_deep", "lit_recursive"}
        for seed in range(6):
            sampling = Sampling(max_tokens=1200, seed=seed, schema=toolbox.answer_schema)
            message = policy.sample([Message("user", "Search.")], toolbox.schemas, sampling).message
            assert json.loads(message.content)["name"] not in toolbox.left_out
            came = toolbox.run(message, MemoryBench("CCO"), seed, toolbox.fetch(message))
            assert came.calls[0]["ok"] and came.messages[0].content.startswith("answer of lit"), came.messages
    finally:
        servers.close()
        policy.close()


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
