"""A campaign that waits for people: no process runs, and a dispatcher goes on after an answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import tasks
from tests.lab.conftest import CAMPAIGN
from tests.support.campaigns import environment, sciagent
from tests.support.elsewhere import list_of_folder, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.parametrize("backend", [pytest.param("sqlite", marks=pytest.mark.slow), "postgresql"], indirect=True),
]


def test_a_dispatcher_goes_on_after_each_answer(ledger: Ledger, tmp_path: Path) -> None:
    url = ledger.url.render_as_string(hide_password=False) if ledger.url.host else str(ledger.url.database)
    env = {"SCIAGENT_LEDGER": url, "SCIAGENT_ARTIFACTS": str(ledger.artifacts.root)}
    (tmp_path / "molecules.csv").write_text("smiles\nOc1ccccc1\nCc1ccccc1O\nCCO\n", encoding="utf-8")
    text = CAMPAIGN.format(name="gaps", lab="{ahead: 1}", budget="{lab_slots: 9}", high=4.6)
    (tmp_path / "gaps.yaml").write_text(text, encoding="utf-8")
    sciagent("run", "gaps.yaml", "--submit", "--json", cwd=tmp_path, **env)

    def state() -> str:
        with ledger.read() as connection:
            return str(connection.execute(sa.select(t.campaign.c.state)).scalar_one())

    def wall() -> float:
        with ledger.read() as connection:
            return float(connection.execute(sa.select(t.campaign.c.wall_seconds)).scalar_one())

    def listed() -> list[dict[str, object]]:
        found = sciagent("lab", "list", "--json", cwd=tmp_path, **env)
        assert isinstance(found, list)
        return found

    def asks() -> bool:
        """Whether a task is open; unlike the command, this costs little to ask again and again."""
        with ledger.read() as connection:
            return bool(tasks.listed(connection))

    def rests() -> bool:
        """Whether the campaign waits and its driver has gone."""
        with ledger.read() as connection:
            return state() == "waiting" and campaigns.driver_of(connection, 1) is None

    command = [sys.executable, "-m", "sciagent", "dispatcher", "--reports", "reports"]
    allowed = list_of_folder(tmp_path) if ledger.url.host else {}
    host = subprocess.Popen(command, cwd=tmp_path, env=environment(**env, **allowed), stderr=subprocess.DEVNULL)
    try:
        until(rests, 240)
        with ledger.read() as connection:
            assert campaigns.hosted_without_driver(connection) == []
        driven, [first] = wall(), listed()
        assert first["smiles"] == "Oc1ccccc1"
        value = ("--value", "homo_lumo_gap=4.3 eV", "--who", "anna")
        sciagent("lab", "enter", str(first["task"]), *value, "--json", cwd=tmp_path, **env)
        until(asks, 240)
        [second] = listed()
        assert second["smiles"] == "Cc1ccccc1O" and driven <= wall() < driven + 60
        sciagent("lab", "enter", str(second["task"]), *value, "--json", cwd=tmp_path, **env)
        until(lambda: state() == "finished", 240)
    finally:
        host.terminate()
        host.wait(timeout=60)
    assert "Cc1ccccc1O" in (tmp_path / "reports" / "gaps.report.html").read_text(encoding="utf-8")
