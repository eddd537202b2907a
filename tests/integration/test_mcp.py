"""The official client lists and calls the tools of a campaign, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.mcp_servers import until_open

TEXT = """
campaign: served
description: Small aromatics.
subject: molecule
objectives: [{property: logp, max: 5}]
ladder:
  - {rung: checks, verifier: molecule.checks, settings: {descriptors: [logp], max_heavy_atoms: 9}}
goal: {kind: graded}
budget: {proposals: 100}
proposer: {kind: screen, file: first.smi}
scheduler: {kind: exhaustive}
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    (tmp_path / "first.smi").write_text("c1ccccc1\n")
    found = Ledger(str(tmp_path / "sciagent.db"))
    create_or_open(found, parse_spec(TEXT, base=tmp_path), TEXT, "test")
    return found


async def talk(server: Any) -> tuple[list[str], list[tuple[bool, str]]]:
    async with Client(server, read_timeout_seconds=60) as client:
        tools = [one.name for one in (await client.list_tools()).tools]
        seen = []
        for name, arguments in (
            ("propose", {"smiles": "c1ccccc1O"}),
            ("propose", {"smiles": "c1ccccc1CCCCCCCCC"}),
            ("modify", {"parent": "Oc1ccccc1", "edit": "add substituent", "what": "fluoro"}),
            ("propose", {"smile": "C"}),
            ("shell", {"command": "ls"}),
        ):
            found = await client.call_tool(name, arguments)
            seen.append((bool(found.is_error), found.content[0].text))
        return tools, seen


def check(ledger: Ledger, tools: list[str], seen: list[tuple[bool, str]]) -> None:
    assert {"propose", "modify", "best", "history", "budget", "finish"} <= set(tools)
    assert [wrong for wrong, _ in seen] == [False, True, False, True, True]
    assert "new" in seen[0][1] and "misses a gate" in seen[1][1] and "smiles" in seen[3][1] and "shell" in seen[4][1]
    with ledger.read() as connection:
        made = connection.execute(sa.select(t.candidate.c.text).order_by(t.candidate.c.id)).scalars().all()
        turns = connection.execute(sa.select(t.turn.c.calls).order_by(t.turn.c.id)).scalars().all()
        states = connection.execute(sa.select(t.trajectory.c.proposer, t.trajectory.c.state)).all()
    assert len(made) == 2 and any("F" in text for text in made)
    assert [one[0]["ok"] for one in turns] == [True, False, True, False, False]
    assert [tuple(one) for one in states] == [("mcp", "ended")]


def test_over_stdio(ledger: Ledger, tmp_path: Path) -> None:
    arguments = ["-m", "sciagent", "mcp", "served", "--ledger", str(tmp_path / "sciagent.db")]
    server = StdioServerParameters(command=sys.executable, args=arguments, cwd=tmp_path, env=_environment())
    tools, seen = asyncio.run(talk(server))
    _until_ended(ledger)
    check(ledger, tools, seen)


def test_over_http(ledger: Ledger, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [sys.executable, "-m", "sciagent", "mcp", "served", "--ledger", str(tmp_path / "sciagent.db")]
    with subprocess.Popen([*arguments, "--http", str(port)], cwd=tmp_path, env=_environment()) as process:
        try:
            until_open(port)
            tools, seen = asyncio.run(talk(f"http://127.0.0.1:{port}/mcp"))
        finally:
            process.terminate()
    _until_ended(ledger)
    check(ledger, tools, seen)


def _environment() -> dict[str, str]:
    import os

    return {**os.environ}


def _until_ended(ledger: Ledger) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with ledger.read() as connection:
            if connection.execute(sa.select(t.trajectory.c.state)).scalar_one() == "ended":
                return
        time.sleep(0.1)
