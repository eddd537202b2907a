"""A server that answers as OpenAI's does, over HTTP, and one that misbehaves."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sciagent.agent import asking
from sciagent.agent.asking import Asking
from sciagent.agent.episode import Episode, Limits
from sciagent.agent.messages import Message, PolicyError, Sampling, ToolCall
from sciagent.agent.policies.endpoint import EndpointPolicy

ASKED = [Message("system", "be brief"), Message("user", "go on")]
Respond = Callable[[dict[str, Any], int], tuple[int, Any]]


class Server:
    """respond: the body asked and its number, to a status and what is sent; None: the connection is cut half way."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.respond: Respond = lambda body, n: (200, answer("done"))
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.bodies.append(body)
                status, sent = outer.respond(body, len(outer.bodies))
                whole = (sent if isinstance(sent, str) else json.dumps(sent)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(whole) + (status == 299)))
                self.end_headers()
                self.wfile.write(whole)  # of 299 one byte is missing, and the connection is closed

            def log_message(self, *given: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def answer(content: str | None, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": more.pop("finish", "stop"), **more.pop("choice", {})}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m-1",
        "choices": [choice],
        "usage": usage,
        **more,
    }


@pytest.fixture
def policy(server: Server) -> Iterator[EndpointPolicy]:
    found = EndpointPolicy("m", server.url, "secret", timeout=0.5)
    yield found
    found.close()


def test_calls_tokens_and_thinking_come_back(server: Server, policy: EndpointPolicy) -> None:
    call = {"id": "a1", "type": "function", "function": {"name": "propose", "arguments": '{"smiles": "CC"}'}}
    logprobs = {"content": [{"token": t, "logprob": -0.5, "bytes": None, "top_logprobs": []} for t in "abc"]}
    server.respond = lambda body, n: (
        200,
        answer(
            "<think>small steps</think>I try ethane.", finish="tool_calls", message={"tool_calls": [call]},
            choice={"logprobs": logprobs, "token_ids": [4, 5, 6]}, prompt_token_ids=[1, 2, 3],
        ),
    )  # fmt: skip
    found = policy.sample(ASKED, [{"type": "function", "function": {"name": "propose"}}], Sampling(seed=3))
    assert found.message == Message(
        "assistant", "I try ethane.", "small steps", (ToolCall("a1", "propose", '{"smiles": "CC"}'),)
    )
    assert found.tokens is not None
    assert (found.tokens.prompt_ids, found.tokens.output_ids) == ((1, 2, 3), (4, 5, 6))
    assert found.tokens.logprobs == (-0.5,) * 3 and found.tokens.forced == (False,) * 3
    assert (found.finish, found.policy, found.prompt_tokens, found.output_tokens) == ("calls", "m-1", 7, 3)
    [body] = server.bodies
    assert body["return_token_ids"] is True and body["logprobs"] is True and body["seed"] == 3
    assert [one["role"] for one in body["messages"]] == ["system", "user"]


def test_half_of_the_tokens_is_none(server: Server, policy: EndpointPolicy) -> None:
    server.respond = lambda body, n: (200, answer("x", choice={"token_ids": [4, 5]}, prompt_token_ids=[1]))
    assert policy.sample(ASKED, [], Sampling()).tokens is None


def test_a_server_without_token_ids_is_asked_without(server: Server, policy: EndpointPolicy) -> None:
    server.respond = lambda body, n: (
        (400, {"error": {"message": "unknown"}}) if "logprobs" in body else (200, answer("x"))
    )
    assert policy.sample(ASKED, [], Sampling()).message.content == "x"
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("status", "sent", "retry"),
    [
        (429, {"error": {"message": "slow down"}}, True),
        (500, {"error": {"message": "oops"}}, True),
        (503, "<html>busy</html>", True),
        (401, {"error": {"message": "no"}}, False),
        (404, {"error": {"message": "no such model"}}, False),
        (200, "not JSON", True),
        (200, {"choices": []}, True),
        (299, answer("cut"), True),
    ],
)
def test_faults_say_whether_asking_again_may_help(
    server: Server, policy: EndpointPolicy, status: int, sent: Any, retry: bool
) -> None:
    server.respond = lambda body, n: (status, sent)
    with pytest.raises(PolicyError) as raised:
        policy.sample(ASKED, [], Sampling())
    assert raised.value.retry is retry and str(raised.value)


def test_who_does_not_answer_in_time_is_asked_again(
    server: Server, policy: EndpointPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once too late, once too busy, once broken, then right: one answer, and no turn is doubled."""
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.01)

    def respond(body: dict[str, Any], n: int) -> tuple[int, Any]:
        if n == 1:
            time.sleep(0.8)
        return {1: (200, answer("late")), 2: (429, {}), 3: (500, {})}.get(n, (200, answer("right")))

    server.respond = respond
    several = Asking(policy, 2)
    episode = Episode(1, 0, tuple(ASKED), Limits())
    several.ask(episode, [], Sampling())
    found = several.next()
    several.close()
    assert found.sampled is not None and found.sampled.message.content == "right"
    assert len(server.bodies) == 4 and several.out == 0 and not several.is_ready()


def test_what_never_answers_is_told_as_a_fault(
    server: Server, policy: EndpointPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.01)
    server.respond = lambda body, n: (500, {"error": {"message": "down"}})
    several = Asking(policy, 1)
    several.ask(Episode(1, 0, tuple(ASKED), Limits()), [], Sampling())
    found = several.next()
    several.close()
    assert found.sampled is None and "500" in found.fault and len(server.bodies) == asking.TRIES


def test_the_model_that_answered_is_kept(server: Server, policy: EndpointPolicy) -> None:
    """A provider may change its model half way: each turn says which it was."""
    server.respond = lambda body, n: (200, answer("x") | {"model": f"m-{n}"})
    assert [policy.sample(ASKED, [], Sampling()).policy for _ in range(2)] == ["m-1", "m-2"]
