"""Several proposers share a campaign's ledger and budget; what one draws depends on what the file says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.agent import conversation_and_asking
from sciagent.campaign.core.create_and_open import create_or_open, open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import SpecError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.chat_server import ChatServer, calls

TEXT = """
campaign: together
subject: molecule
seed: 1
objectives: [{{property: logp, max: 5}}]
ladder:
  - {{rung: quick, verifier: bad.quick}}
goal: {{kind: graded}}
budget: {{proposals: {proposals}}}
proposer:
  kind: several
  lead: {lead}
  proposers:
    table: {{kind: screen, file: table.csv, batch: 3}}
    alcohols: {{kind: llm, model: m, endpoint: "{url}", turns: 4, episodes: 2, ahead: 200}}
    ethers: {{kind: llm, model: m, endpoint: "{url}", turns: 4, ahead: 200, seeds: seeds.csv}}
scheduler: {{kind: exhaustive}}
workers: 1
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(str(tmp_path / "sciagent.db"))
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(conversation_and_asking, "FIRST_PAUSE", 0.01)
    (tmp_path / "table.csv").write_text("smiles\n" + "".join(f"{'C' * n}F\n" for n in range(1, 61)))
    (tmp_path / "seeds.csv").write_text("smiles\nCOC\nCOCC\n")
    return tmp_path


def driver(ledger: Ledger, folder: Path, server: ChatServer, *, proposals: int = 24, lead: int = 4) -> Driver:
    text = TEXT.format(url=server.url, proposals=proposals, lead=lead)
    return Driver(create_or_open(ledger, parse_spec(text, base=folder), text, "test").built)


def slowly(body: dict[str, Any], n: int) -> tuple[int, Any]:
    time.sleep(0.05)
    return 200, calls(("propose", {"smiles": f"{'C' * n}{'O' if n % 2 else 'OC'}"}), n=n, ids=False)


def made(ledger: Ledger) -> Counter[str]:
    j, u, p = t.trajectory.c, t.turn.c, t.proposal.c
    joined = t.trajectory.join(t.turn, u.trajectory_id == j.id).join(t.proposal, p.turn_id == u.id)
    with ledger.read() as connection:
        return Counter(connection.execute(sa.select(j.proposer).select_from(joined)).scalars())


def test_a_script_and_two_models_share_a_budget_and_none_runs_away(
    ledger: Ledger, folder: Path, server: ChatServer
) -> None:
    """The table could bring all at once; it waits for models that take their time."""
    server.respond = slowly
    with driver(ledger, folder, server) as running:
        assert running.run() is CampaignState.FINISHED
    found = made(ledger)
    assert found.total() == 24 and set(found) == {"table", "alcohols", "ethers"}
    assert max(found.values()) <= min(found.values()) + 4 + 3, found  # the lead, and one batch


def test_each_episode_says_whose_it_is_and_each_script_has_one_trajectory(
    ledger: Ledger, folder: Path, server: ChatServer
) -> None:
    server.respond = slowly
    with driver(ledger, folder, server, proposals=16) as running:
        running.run()
    with ledger.read() as connection:
        rows = connection.execute(sa.select(t.trajectory).order_by(t.trajectory.c.number)).mappings().all()
    names = [(one["number"], one["proposer"], one["settings"]["name"]) for one in rows]
    assert names[:2] == [(0, "table", "table"), (2, "ethers", "ethers")]  # the seeds of the third
    assert all(number > 2 and name == label for number, name, label in names[2:])
    assert {name for _, name, _ in names[2:]} == {"alcohols", "ethers"}


def test_who_resumes_goes_on_with_each_where_it_was(ledger: Ledger, folder: Path, server: ChatServer) -> None:
    server.respond = slowly
    with driver(ledger, folder, server) as running:
        while made(ledger).total() < 12:
            running.step()
        running.request_stop()
        while running.step() is None:
            pass
    before = made(ledger)
    with Driver(open_stored(ledger, "together", "test").built) as running:
        assert running.run() is CampaignState.FINISHED
    found = made(ledger)
    assert found.total() == 24 and all(found[name] >= n for name, n in before.items())
    assert max(found.values()) <= min(found.values()) + 4 + 3
    with ledger.read() as connection:
        texts = list(connection.execute(sa.select(t.proposal.c.text)).scalars())
    assert len([one for one in texts if one.endswith("F")]) == len({one for one in texts if one.endswith("F")})


def test_who_has_nothing_left_does_not_hold_the_others_up(ledger: Ledger, folder: Path, server: ChatServer) -> None:
    (folder / "table.csv").write_text("smiles\nCF\nCCF\n")
    server.respond = slowly
    with driver(ledger, folder, server) as running:
        assert running.run() is CampaignState.FINISHED
    found = made(ledger)
    assert found["table"] == 2 and found.total() == 24


def test_a_model_that_never_answers_leaves_the_others_to_it(ledger: Ledger, folder: Path, server: ChatServer) -> None:
    server.respond = lambda body, n: (500, {"error": {"message": "down"}})
    with driver(ledger, folder, server) as running:
        assert running.run() is CampaignState.FINISHED
    assert made(ledger) == {"table": 22, "ethers": 2}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  proposers:\n", "  proposers: {}\n  x:\n", "proposers"),
        ("file: table.csv", "file: gone.csv", "gone.csv"),
        ("kind: screen, file: table.csv", "kind: evolve, wait: true, seeds: seeds.csv", "that is alone"),
        ("    table:", "    ../table:", "proposers"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(folder: Path, old: str, new: str, said: str) -> None:
    text = TEXT.format(url="http://127.0.0.1:1/v1", proposals=9, lead=4).replace(old, new)
    with pytest.raises(SpecError, match=r"campaign\.yaml:\d+:\d+: proposer") as raised:
        parse_spec(text, base=folder)
    assert said in str(raised.value)
