"""A campaign whose candidates a model proposes, over HTTP, with driver, ledger and fast rungs as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.agent.policies.endpoint_requests_and_answers import GRAMMAR
from sciagent.agent.turns_to_token_rows import recorded_calls
from sciagent.campaign.core.create_and_open import create_or_open, open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.states_and_needs import CampaignState
from sciagent.inputs.environment_variables import code_version
from sciagent.report.status_best_trace import episode
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from tests.support.chat_server import ChatServer, answer, calls

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
MOLECULES = tuple(f"{'C' * n}O" for n in range(1, 40))
TEXT = """
campaign: talking
description: Alcohols of any length.
subject: molecule
seed: 1
objectives: [{{property: logp, max: 5}}]
ladder:
  - {{rung: quick, verifier: bad.quick}}
goal: {{kind: graded}}
budget: {{proposals: {proposals}, llm_tokens: {tokens}}}
proposer: {{kind: llm, model: m, endpoint: "{url}", turns: {turns}, episodes: {episodes}, timeout: 5, {more}}}
scheduler: {{kind: exhaustive}}
workers: 2
"""


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sciagent.agent.conversation_and_asking.FIRST_PAUSE", 0.01)


def talking(
    ledger: Ledger,
    folder: Path,
    server: ChatServer,
    *,
    proposals: int = 6,
    turns: int = 3,
    episodes: int = 1,
    tokens: int = 10**6,
    more: str = "ahead: 50",
) -> Driver:
    text = TEXT.format(url=server.url, proposals=proposals, turns=turns, episodes=episodes, tokens=tokens, more=more)
    return Driver(create_or_open(ledger, parse_spec(text, base=folder), text, "test").built)


def propose(text: str) -> tuple[str, dict[str, Any]]:
    return "propose", {"smiles": text, "rationale": "one carbon more", "predictions": []}


def one_each(body: dict[str, Any], n: int) -> tuple[int, Any]:
    return 200, calls(propose(MOLECULES[n - 1]), n=n)


def rows(ledger: Ledger, table: sa.Table) -> list[Any]:
    with ledger.read() as connection:
        return list(connection.execute(sa.select(table).order_by(table.c.id)).mappings())


def test_what_a_model_proposes_becomes_candidates_and_every_token_is_kept(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    server.respond = one_each
    with talking(ledger, tmp_path, server) as driver:
        assert driver.run() is CampaignState.FINISHED
    with ledger.read() as connection:
        row = campaigns.get(connection, "talking")
        assert (
            campaign_counts_and_remarks.count(
                connection, t.campaign_candidate, t.campaign_candidate.c.campaign_id == row.id
            )
            == 6
        )
        spent = campaign_counts_and_remarks.spent(connection, row.id)
        told = episode(connection, row, 1)
    turns, began = rows(ledger, t.turn), rows(ledger, t.trajectory)
    assert [one["number"] for one in began] == [1, 2] and all(one["state"] == "ended" for one in began)
    assert [one["number"] for one in turns] == [0, 1, 2] * 2
    assert spent["llm_tokens"] == 6 * 10
    assert [one["output_ids"] for one in turns] == [[n, n + 1] for n in range(1, 7)]
    assert all(one["logprobs"] == [-0.25] * 2 and one["forced"] == [False] * 2 for one in turns)
    held: list[int] = []
    for n, one in enumerate(turns, 1):  # the prompt is put together again from what was added
        held = [] if one["number"] == 0 else held
        prompt = held[: one["kept"]] + one["prompt_ids"]
        assert prompt == list(range(100, 100 + 3 * n))
        held = prompt + one["output_ids"]
    assert [one["message"]["calls"][0]["name"] for one in turns] == ["propose"] * 6
    assert [p["text"] for turn in told["turns"] for p in turn["proposals"]] == list(MOLECULES[:3])
    assert all(one["behaviour"] == [-0.25] * 2 for one in turns), "what was drawn from is known: temperature 1"
    assert {turn["untrainable"] for turn in told["turns"]} == {GRAMMAR}
    assert not any(turn["trainable"] for turn in told["turns"])
    first, second = server.bodies[0]["messages"], server.bodies[1]["messages"]
    assert "Alcohols" in first[1]["content"] and len(second) == 4 and second[3]["role"] == "tool"
    assert {"propose", "modify", "finish"} <= {one["function"]["name"] for one in server.bodies[0]["tools"]}


def test_a_turn_says_who_answered_with_which_tools_and_what_could_be_known(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    server.respond = one_each
    with talking(ledger, tmp_path, server) as driver:
        driver.run()
    turns, [tools], [policy] = rows(ledger, t.turn), rows(ledger, t.tool_set), rows(ledger, t.policy)
    assert {one["tool_set_id"] for one in turns} == {tools["id"]} and {one["policy_id"] for one in turns} == {
        policy["id"]
    }
    assert tools["content"]["tools"] == server.bodies[0]["tools"] and not tools["content"]["structured"]
    assert (policy["name"], policy["source"], policy["base_sha256"]) == ("m-1", server.url, None)
    for one in turns:
        assert one["asked_at"] <= one["at"] and one["asked_watermark"] <= one["watermark"]
    watermarks = [one["asked_watermark"] for one in turns]
    assert watermarks == sorted(set(watermarks)), "each question was asked after the answers of the turn before"
    began = rows(ledger, t.trajectory)
    assert {one["purpose"] for one in began} == {"campaign"} and {one["code_version"] for one in began} == {
        code_version()
    }
    attempts = rows(ledger, t.attempt)
    fast = [one["turn_id"] for one in attempts if one["job_id"] is None]
    assert fast == [one["id"] for one in turns], "one batch of the safety screen in each"
    known = {one["attempt_id"]: one["watermark"] for one in rows(ledger, t.evidence)}
    ended = {one["id"]: one["watermark"] for one in attempts}
    assert ended.keys() == known.keys() and set(ended.values()) <= set(known.values())
    assert all(ended[id_] >= known[id_] for id_ in known), "jobs that end together have the mark of the last of them"


def test_turns_of_an_endpoint_are_trainable_if_no_grammar_restricts_its_calls(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    server.respond = one_each
    with talking(ledger, tmp_path, server, proposals=2, more="ahead: 50, strict: false") as driver:
        driver.run()
    assert all(one["untrainable"] is None and one["behaviour"] == [-0.25] * 2 for one in rows(ledger, t.turn))
    assert all(one["function"]["strict"] is False for body in server.bodies for one in body["tools"])


def test_the_calls_of_a_model_come_back_as_they_were_sampled(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    server.respond = one_each
    with talking(ledger, tmp_path, server) as driver:
        driver.run()
    for trajectory, first in ((rows(ledger, t.trajectory)[0], 1), (rows(ledger, t.trajectory)[1], 4)):
        with ledger.read() as connection:
            calls_ = recorded_calls(connection, trajectory["id"])
        assert [call.prompt_ids for call in calls_] == [tuple(range(100, 100 + 3 * n)) for n in range(first, first + 3)]
        assert [call.output_ids for call in calls_] == [(n, n + 1) for n in range(first, first + 3)]


def test_a_later_episode_is_told_what_was_found(ledger: Ledger, tmp_path: Path, server: ChatServer) -> None:
    server.respond = one_each
    with talking(ledger, tmp_path, server, proposals=4, turns=2, more="ahead: 1") as driver:
        driver.run()
    fourth = next(one for one in server.bodies if one["messages"][1]["content"].count("#1"))
    assert "logp" in fourth["messages"][1]["content"]


def test_a_later_episode_is_told_what_became_of_each_class_of_structures(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    made = ("CCO", "Cc1ccccc1", "CCc1ccccc1", "c1ccsc1", "CCCO", "CCCCO")
    server.respond = lambda body, n: (200, calls(propose(made[n - 1]), n=n))
    with talking(ledger, tmp_path, server, proposals=6, turns=5) as driver:
        driver.run()
    second = next(one for one in server.bodies if "Tried so far" in one["messages"][1]["content"])
    line = next(one for one in second["messages"][1]["content"].splitlines() if one.startswith("Tried so far"))
    assert "c1ccccc1: 2" in line and "c1ccsc1: 1" in line and "no ring: 2" in line


def test_an_episode_ends_by_the_clock(ledger: Ledger, tmp_path: Path, server: ChatServer) -> None:
    server.respond = one_each
    with talking(ledger, tmp_path, server, proposals=2, turns=9, more="ahead: 50, minutes: 0.00001") as driver:
        driver.run()
    assert [one["ended_why"] for one in rows(ledger, t.trajectory)] == ["0.0006 seconds of the model"] * 2
    assert not any("ended" in one["settings"] for one in rows(ledger, t.trajectory)), "what was written stays"


def test_several_episodes_go_on_at_once(ledger: Ledger, tmp_path: Path, server: ChatServer) -> None:
    server.respond = one_each
    with talking(ledger, tmp_path, server, proposals=12, turns=3, episodes=4) as driver:
        assert driver.run() is CampaignState.FINISHED
    turns = rows(ledger, t.turn)
    assert len({one["trajectory_id"] for one in turns}) >= 4
    assert len(turns) == len({(one["trajectory_id"], one["number"]) for one in turns})


def test_who_resumes_goes_on_with_the_episode(ledger: Ledger, tmp_path: Path, server: ChatServer) -> None:
    """Two turns are written, then the driver stops; what was out is asked again, and no turn is there twice."""
    server.respond = one_each
    driver = talking(ledger, tmp_path, server, proposals=5, turns=5)
    with driver:
        driver.run(lambda: driver.request_stop() if len(rows(ledger, t.turn)) >= 2 else None)
    before = rows(ledger, t.turn)
    asked = len(server.bodies)
    modify = ("modify", {"parent": "#2", "edit": "add substituent", "what": "fluoro", "where": None})
    server.respond = lambda body, n: (200, calls(modify, n=n))
    with Driver(open_stored(ledger, "talking", "test").built) as again:
        assert again.run() is CampaignState.FINISHED
    parents = sa.select(t.candidate.c.text).join(t.candidate_parent, t.candidate_parent.c.parent_id == t.candidate.c.id)
    with ledger.read() as connection:
        assert set(connection.execute(parents).scalars()) == {MOLECULES[1]}, "#2 is what the second turn proposed"
    turns = rows(ledger, t.turn)
    assert turns[: len(before)] == before and [one["number"] for one in turns] == list(range(5))
    assert len({one["trajectory_id"] for one in turns}) == 1
    went_on = server.bodies[asked]["messages"]
    assert len(went_on) == 2 + 2 * len(before), "the conversation is that of the ledger"


def test_a_model_that_fails_ends_the_episode_and_then_the_campaign(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    server.respond = lambda body, n: one_each(body, n) if n == 1 else (500, {"error": {"message": "down"}})
    with talking(ledger, tmp_path, server) as driver:
        assert driver.run() is CampaignState.FAILED
    with ledger.read() as connection:
        why = str(campaigns.get(connection, "talking").stop_reason)
    assert why.startswith("the model failed 5 times in a row: m answered 500: ") and "down" in why
    assert len(rows(ledger, t.turn)) == 1
    failed = [one for one in rows(ledger, t.event) if one["kind"] == "model_failed"]
    assert len(failed) == 5 and "500" in failed[0]["payload"]["why"]


def test_tokens_are_a_budget(ledger: Ledger, tmp_path: Path, server: ChatServer) -> None:
    server.respond = one_each
    with talking(ledger, tmp_path, server, proposals=30, tokens=35) as driver:
        assert driver.run() is CampaignState.BUDGET_SPENT
    assert len(rows(ledger, t.turn)) == 4, "of ten tokens each"


def test_without_tokens_a_turn_is_kept_and_said_not_to_be_trainable(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    server.respond = lambda body, n: (200, calls(propose(MOLECULES[n - 1]), n=n, ids=False))
    with talking(ledger, tmp_path, server, proposals=2) as driver:
        driver.run()
    assert all(one["output_ids"] is None for one in rows(ledger, t.turn))
    with ledger.read() as connection:
        told = episode(connection, campaigns.get(connection, "talking"), 1)
    assert not any(turn["trainable"] for turn in told["turns"])


def test_bad_answers_are_told_how_to_do_better_and_the_episode_goes_on(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    bad = {1: answer("I think about it."), 2: calls(("launch", {}), n=2), 3: calls(("propose", {"smiles": "C(("}), n=3)}
    server.respond = lambda body, n: (200, bad.get(n) or calls(propose("CCO"), n=n))
    with talking(ledger, tmp_path, server, proposals=2, turns=9) as driver:
        assert driver.run() is CampaignState.FINISHED
    seen = [one["observations"][0]["content"] for one in rows(ledger, t.turn)]
    assert "Call one of the tools" in seen[0] and "launch" in seen[1] and len(seen) >= 4
    assert len({one["trajectory_id"] for one in rows(ledger, t.turn)}) == 1


def test_notes_and_finish(ledger: Ledger, tmp_path: Path, server: ChatServer) -> None:
    said = {1: calls(("note", {"text": "alcohols are fine"}), ("finish", {"reason": "enough"}), n=1)}
    server.respond = lambda body, n: (200, said.get(n) or calls(propose(MOLECULES[n]), n=n))
    with talking(ledger, tmp_path, server, proposals=1) as driver:
        driver.run()
    began = rows(ledger, t.trajectory)
    assert began[0]["ended_why"] == "finished by the model"
    assert "alcohols are fine" in server.bodies[1]["messages"][1]["content"]


def thought(server: ChatServer) -> None:
    """Answers that a model thinks before, in the field that vLLM has for it."""

    def respond(body: dict[str, Any], n: int) -> tuple[int, Any]:
        found = calls(propose(MOLECULES[n - 1]), n=n)
        found["choices"][0]["message"]["reasoning"] = f"thought {n} " * 100
        return 200, found

    server.respond = respond


@pytest.mark.parametrize(("mode", "seen"), [("preserve", ["thought 1 " * 100]), ("strip", [None])])
def test_what_a_model_thought_is_kept_whole_and_shown_to_it_again_as_asked_for(
    ledger: Ledger, tmp_path: Path, server: ChatServer, mode: str, seen: list[str | None]
) -> None:
    thought(server)
    with talking(ledger, tmp_path, server, proposals=3, more=f"ahead: 50, thinking: {mode}") as driver:
        assert driver.run() is CampaignState.FINISHED
    second = next(
        body["messages"]
        for body in server.bodies
        if sum(one["role"] == "assistant" for one in body["messages"]) == 1 and body["messages"][-1]["role"] == "tool"
    )
    assert [one.get("reasoning") for one in second if one["role"] == "assistant"] == seen
    turns = rows(ledger, t.turn)
    assert turns[0]["message"]["thinking"] == "thought 1 " * 100
    assert [one["number"] for one in turns] == [0, 1, 2]


def test_a_limit_a_cut_answer_and_its_tokens_are_told(ledger: Ledger, tmp_path: Path, server: ChatServer) -> None:
    """First the server limits its requests, then an answer is cut: events, trouble and next message say so."""
    seen: list[str | None] = []

    def respond(body: dict[str, Any], n: int) -> tuple[int, Any]:
        if n == 1:
            return 429, {"error": {"message": "slow down"}}
        if n == 2:
            return 200, answer("I think", finish="length")
        if n == 3:
            usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
            return 200, calls(propose("CCO"), n=n) | {"usage": usage}
        return 400, {"error": {"message": "the model is retired", "param": "model"}}

    server.respond = respond
    server.headers = {"retry-after-ms": "700"}

    def look() -> None:
        with ledger.read() as connection:
            seen.append(campaigns.trouble(connection, campaigns.get(connection, "talking").id))

    with talking(ledger, tmp_path, server, proposals=2) as driver:
        driver.run(look)
    assert any(one and one.startswith("the model m is limited until ") and "slow down" in one for one in seen)
    assert any(one and one.startswith("the model m failed: ") and "the model is retired" in one for one in seen)
    events = [one["kind"] for one in rows(ledger, t.event) if one["kind"].startswith("model_")]
    assert events[:3] == ["model_limited", "model_answers", "model_failed"]
    with ledger.read() as connection:
        row = campaigns.get(connection, "talking")
        assert row.state is CampaignState.FAILED and campaigns.trouble(connection, row.id) is None
    assert server.bodies[2]["messages"][-1]["content"].startswith("Your answer was cut at 3 tokens")
    cut, proposed = rows(ledger, t.turn)
    assert "cached_tokens" not in cut["sampling"] and proposed["sampling"]["cached_tokens"] == 5
