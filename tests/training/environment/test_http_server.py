"""An environment over HTTP: the same episodes and rewards as in its process, and refusals that say why."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from sciagent import Campaign
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.training.environment.environment import Environment
from sciagent.training.environment.http_server import (
    MAX_BODY,
    EnvironmentServer,
    application,
    checked_origin,
    guarded,
    hosts_of,
)
from tests.training.environment.served import FAST, REWARDS, Client, trajectories, turns

TOKEN = "a-token-of-the-test"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[Environment]:
    folder = tmp_path_factory.mktemp("web")
    (folder / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
    (folder / "campaign.yaml").write_text(FAST, encoding="utf-8")
    (folder / "ledger.db").write_bytes(migrated_sqlite.read_bytes())
    ledger = Ledger(str(folder / "ledger.db"), artifacts=folder / "artifacts")
    with Campaign.from_yaml(folder / "campaign.yaml", ledger).environment(REWARDS, turns=2, most=40) as made:
        yield made
    ledger.close()


def serving(environment: Environment, token: str | None, *origins: str) -> Iterator[Client]:
    server = EnvironmentServer("127.0.0.1", 0)
    app = guarded(application(environment), token, hosts_of("127.0.0.1", token), origins)
    thread = threading.Thread(target=server.serve, args=(app, environment), daemon=True)
    thread.start()
    yield Client(server.url)
    server.stop()
    thread.join(timeout=20)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def client(environment: Environment) -> Iterator[Client]:
    yield from serving(environment, None)


def test_an_episode_from_its_opening_to_its_rewards(client: Client, environment: Environment) -> None:
    assert client("/health") == (200, {"status": "ok"})
    status, listed = client("/tasks?n=2")
    assert status == 200 and [task["task"] for task in listed["tasks"]] == [0, 1]
    _, opened = client("/episodes", {"task": 1, "policy": "far@2", "purpose": "evaluation"})
    assert opened["messages"][0]["role"] == "system" and opened["turns"] == 2
    at = f"/episodes/{opened['episode']}"
    call = {"id": "x", "type": "function", "function": {"name": "propose", "arguments": '{"smiles": "CCCO"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    _, first = client(
        f"{at}/turns", {"message": message, "usage": {"prompt_tokens": 9, "completion_tokens": 1}, "turn": 0}
    )
    assert first["messages"] == [{"role": "tool", "content": "new #3: CCCO [e0daf595], settled", "tool_call_id": "x"}]
    assert first["reward"] == pytest.approx(0.2945, abs=1e-3) and not first["done"]
    _, second = client(f"{at}/calls", {"name": "best", "arguments": {"n": 1}})
    assert second["done"] and second["ended"] == "2 turns"
    status, ended = client(f"{at}/end?wait=5", {})
    assert status == 200 and ended == client(f"{at}/rewards")[1]
    assert [turn["return"] for turn in ended["turns"]] == [ended["outcome"], 0.0]
    [turn, _] = [turn for turn in turns(environment.built.ledger) if turn["episode"] == opened["episode"]]
    assert (turn["policy_version"], turn["purpose"], turn["cost"]["llm_tokens"]) == ("far@2", "evaluation", 10)


def test_many_clients_at_once(client: Client) -> None:
    def play(n: int) -> Any:
        _, opened = client("/episodes", {"group": "many", "siblings": 16, "policy": "p"})
        _, reply = client(f"/episodes/{opened['episode']}/calls", {"name": "propose", "arguments": {"smiles": "CCCCO"}})
        return (
            opened["group"],
            opened["sibling"],
            reply["messages"][0]["content"],
            reply["reward"],
            client(f"/episodes/{opened['episode']}/end", {})[0],
        )

    with ThreadPoolExecutor(16) as threads:
        groups, siblings, contents, rewards, statuses = zip(*threads.map(play, range(16)), strict=True)
    assert len(set(groups)) == 1 and sorted(siblings) == list(range(16))
    assert len(set(contents)) == 1 and contents[0].endswith(": CCCCO [e4afbc21], settled")
    assert set(statuses) == {200} and all(reward > 0.3 for reward in rewards)


@pytest.mark.parametrize(
    ("path", "body", "status", "fault"),
    [
        ("/nowhere", None, 404, "there is no /nowhere here"),
        ("/episodes", None, 405, "/episodes does not take GET"),
        ("/tasks?n=many", None, 400, "n: 'many' is no number"),
        ("/tasks?n=0", None, 400, "n: 0 is no whole number from 1"),
        ("/episodes", {"polciy": "x"}, 400, "unknown key 'polciy'; did you mean \"policy\"?"),
        ("/episodes", {"siblings": 0}, 400, "siblings: 0 is no whole number"),
        ("/episodes", {"group": "g", "siblings": 500}, 429, "at most 40 may be"),
        ("/episodes", [1], 400, "the request must be a JSON object"),
        ("/episodes/99/turns", {"message": {"content": "x"}}, 404, "no episode with the number 99 is open here"),
        ("/episodes/99/turns", {}, 400, "message: missing"),
        ("/episodes/99/rewards", None, 404, "has no episode 99"),
        ("/episodes/0/rewards?wait=-1", None, 400, "wait: -1.0 is not from 0 to 3600 seconds"),
        ("/episodes/0/rewards?wait=nan", None, 400, "wait: nan is not from 0"),
        ("/episodes/0/end?wait=x", {}, 400, "wait: 'x' is no number"),
    ],
)
def test_a_wrong_request_is_refused(client: Client, path: str, body: Any, status: int, fault: str) -> None:
    found, reply = client(path, body)
    assert found == status and fault in reply["error"]


@pytest.mark.parametrize(
    ("raw", "status", "fault"),
    [
        (b"{", 400, "the request is no JSON"),
        (b'{"seed": NaN}', 400, "NaN is no JSON number"),
        (b"\xff\xfe\x00", 400, "the request is no JSON"),
        (b'{"policy": "' + b"x" * MAX_BODY + b'"}', 413, "over 1000000 bytes"),
        (b"[" * 100_000, 400, "the request is no JSON"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused(client: Client, raw: bytes, status: int, fault: str) -> None:
    found, reply = client("/episodes", raw=raw)
    assert found == status and fault in reply["error"]


def test_a_token_is_asked_for_and_a_foreign_host_is_refused(environment: Environment, client: Client) -> None:
    assert Client(client.url, Host="evil.example:80")("/health")[0] == 403
    assert Client(client.url, Host="localhost:80")("/health")[0] == 200
    assert Client(client.url, Host="[::1]")("/health")[0] == 200  # without a port
    for asked in serving(environment, TOKEN):
        assert asked("/tasks")[0] == 401
        assert Client(asked.url, Authorization="Bearer wrong")("/tasks")[0] == 401
        status, listed = Client(asked.url, Authorization=f"Bearer {TOKEN}", Host="far.example")("/tasks")
        assert status == 200 and listed["campaign"] == "rolled"


CHANGING = ("/episodes", "/episodes/0/turns", "/episodes/0/calls", "/episodes/0/end")
"""Requests that change something."""


@pytest.mark.parametrize("path", CHANGING)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_request_that_is_not_json_changes_nothing(
    client: Client, environment: Environment, path: str, kind: str
) -> None:
    before = turns(environment.built.ledger), trajectories(environment.built.ledger)
    for method in ("POST", "PUT", "DELETE"):
        status, reply = Client(client.url, **{"Content-Type": kind})(path, {}, method=method)
        assert status == 415 and "Content-Type: application/json" in reply["error"]
    assert (turns(environment.built.ledger), trajectories(environment.built.ledger)) == before


def test_json_with_a_charset_is_json(client: Client) -> None:
    charset = Client(client.url, **{"Content-Type": "Application/JSON; charset=utf-8"})
    assert charset("/episodes", {"polciy": 1})[0] == 400


@pytest.mark.parametrize("path", [*CHANGING, "/tasks"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://lab.example"])
def test_a_page_of_another_server_is_refused(client: Client, path: str, origin: str) -> None:
    status, reply = Client(client.url, Origin=origin)(path, None if path == "/tasks" else {})
    assert status == 403 and repr(origin) in reply["error"] and "--allow-origin" in reply["error"]


async def greeting(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("welcome")
    await socket.close()


def test_a_page_of_another_server_opens_no_websocket() -> None:
    """OpenEnv's clients take their turns over one; a browser asks nobody before it opens one."""
    app = guarded(Starlette(routes=[WebSocketRoute("/ws", greeting)]), None, ("testserver",))
    client = TestClient(app)
    with client.websocket_connect("/ws") as socket:  # a program sends no origin
        assert socket.receive_text() == "welcome"
    with client.websocket_connect("/ws", headers={"origin": "http://testserver"}) as socket:
        assert socket.receive_text() == "welcome"
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        client.websocket_connect("/ws", headers={"origin": "http://evil.example"}),
    ):
        pass
    assert refused.value.code == 1008


def test_pages_of_this_server_and_of_those_that_are_named_may_ask(environment: Environment, client: Client) -> None:
    assert Client(client.url, Origin=client.url)("/tasks")[0] == 200
    page = "https://lab.example"
    for asked in serving(environment, TOKEN, page):
        # a browser asks first what the page may send, and shows no token then
        headers = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        status, allowed = Client(asked.url, Origin=page, **headers).answer("/episodes", method="OPTIONS")
        assert status == 200 and allowed["access-control-allow-origin"] == page
        assert allowed["access-control-allow-headers"].lower().startswith("accept, accept-language, authorization")
        shown = {"Authorization": f"Bearer {TOKEN}"}
        assert Client(asked.url, Origin=page, **shown)("/episodes", {"polciy": 1})[0] == 400
        _, headers = Client(asked.url, Origin=page, **shown).answer("/tasks")
        assert headers["access-control-allow-origin"] == page
        assert Client(asked.url, Origin=page)("/tasks")[0] == 401
        assert Client(asked.url, Origin="http://evil.example", **shown)("/tasks")[0] == 403


@pytest.mark.parametrize(
    "given", ["*", "null", "lab.example", "https://lab.example/page", "http://u@x", "ftp://x", "http://["]
)
def test_what_is_no_origin_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="--allow-origin"):
        checked_origin(given)


def test_an_origin_is_written_as_browsers_write_it() -> None:
    assert checked_origin("HTTPS://Lab.Example:443/") == "https://lab.example"
    assert checked_origin("http://localhost:3000") == "http://localhost:3000"
    assert checked_origin("http://[::1]:80") == "http://[::1]"


def test_others_are_served_with_a_token_only() -> None:
    with pytest.raises(UsageError, match=r"others reach 0\.0\.0\.0: set SCIAGENT_ENVIRONMENT_TOKEN"):
        hosts_of("0.0.0.0", None)
    taken = EnvironmentServer("127.0.0.1", 0)
    with pytest.raises(UsageError, match=r"cannot listen at 127\.0\.0\.1"):
        EnvironmentServer("127.0.0.1", int(taken.url.rpartition(":")[2])).close()
    taken.close()
