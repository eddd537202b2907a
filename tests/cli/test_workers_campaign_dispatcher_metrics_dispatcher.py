"""`sciagent run --submit` and `dispatcher`, as they are typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy.engine import make_url

from sciagent.api.campaign import Campaign
from sciagent.store.database import migrate_and_back_up
from sciagent.store.database.engine import connect, ledger_url
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import environment
from tests.support.chat_server import ChatServer
from tests.support.elsewhere import until
from tests.support.mcp_servers import SERVER, starts
from tests.support.typed import data, refused, told

CAMPAIGN = """
campaign: rogue
subject: molecule
objectives: [{property: logp, max: 5}]
ladder: [{verifier: molecule.checks, settings: {descriptors: [logp]}}]
goal: {kind: graded}
budget: {proposals: 5}
proposer:
  kind: llm
  model: m
  structured: false
  endpoint: ENDPOINT
  episodes: 1
  turns: 1
  mcp: {x: {command: COMMAND, tools: [search]}}
scheduler: {kind: exhaustive}
"""


def rogue_url(url: str) -> str:
    """Makes a login that owns nothing, and may read and write the tables of a ledger. Returns its address."""
    with psycopg.connect(url.replace("postgresql+psycopg", "postgresql"), autocommit=True) as admin:
        admin.execute("CREATE ROLE rogue LOGIN")
        admin.execute("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO rogue")
        admin.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO rogue")
    return make_url(url).set(username="rogue").render_as_string(hide_password=False)


def test_a_command_that_another_login_submitted_starts_when_it_is_registered_and_not_before(
    postgres_url: str, tmp_path: Path
) -> None:
    engine = connect(ledger_url(postgres_url))
    migrate_and_back_up.upgrade(engine)
    engine.dispose()
    server = ChatServer()
    command = json.dumps([sys.executable, str(SERVER), str(tmp_path)])
    text = CAMPAIGN.replace("ENDPOINT", server.url).replace("COMMAND", command)
    (tmp_path / "rogue.yaml").write_text(text, encoding="utf-8")
    mine = {"SCIAGENT_LEDGER": postgres_url, "SCIAGENT_ARTIFACTS": str(tmp_path / "artifacts")}
    told("run", str(tmp_path / "rogue.yaml"), "--submit", "--ledger", rogue_url(postgres_url))
    campaign = Campaign.open("rogue", postgres_url)
    allow = tmp_path / "allow.yaml"
    allow.write_text("variables: [NONE]\n", encoding="utf-8")
    allow.chmod(0o644)
    words = [sys.executable, "-m", "sciagent", "dispatcher", "--allow", str(allow)]
    dispatcher = subprocess.Popen(words, env=environment(**mine), stderr=subprocess.PIPE, cwd=tmp_path)
    try:
        trouble = until(lambda: campaign.status().trouble)
        assert "proposer.mcp.x.command: names the command" in trouble and "proposer.endpoint: names the" in trouble
        assert "an administrator may register it, under commands" in trouble
        assert "no driver is started" in told("status", "rogue", "--ledger", postgres_url)
        assert campaign.status().state == "created" and not (tmp_path / "starts.txt").exists()
        origin = server.url.removesuffix("/v1")
        allow.write_text(json.dumps({"commands": [json.loads(command)], "endpoints": [origin]}), encoding="utf-8")
        until(lambda: (tmp_path / "starts.txt").exists() and campaign.status().state == "running")
        [pid] = starts(tmp_path)
        assert campaign.status().trouble is None
        assert psutil.Process(pid).cwd() == "/", "not the folder that the other login chose"
    finally:
        dispatcher.terminate()
        said = dispatcher.communicate(timeout=60)[1].decode()
        server.close()
        campaign.ledger.close()
    assert "driver_refused" in said


@pytest.mark.parametrize(("mode", "is_mine_alone"), [(0o600, True), (0o644, True), (0o660, False), (0o666, False)])
def test_a_sqlite_ledger_is_that_of_its_user_unless_others_may_write_it(
    tmp_path: Path, mode: int, is_mine_alone: bool
) -> None:
    ledger = Ledger(str(tmp_path / "ledger.db"))
    (tmp_path / "ledger.db").chmod(mode)
    assert ledger.is_mine_alone == is_mine_alone
    ledger.close()


def test_a_submitted_campaign_waits_for_a_dispatcher_until_it_is_stopped(folder: Path) -> None:
    said = told("run", "small", "--submit", "--who", "ann")
    assert "nothing drives it yet" in said and "sciagent serve" in said and "sciagent dispatcher" in said
    assert data("run", "small", "--submit") == {"campaign": "small", "dispatchers": 0, "driven": False}
    assert "nothing will take up small now" in told("stop", "small")
    assert "a dispatcher runs no jobs itself" in refused("dispatcher", "--executor", "local")
