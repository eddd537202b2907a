"""What an endpoint says and how it fails, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from sciagent.agent import asking
from sciagent.agent.asking import Asking
from sciagent.agent.episode import Episode, Limits
from sciagent.agent.messages import Message, PolicyError, Sampling, ToolCall
from sciagent.agent.policies.endpoint import EndpointPolicy
from tests.support.chat_server import ChatServer, answer

ASKED = [Message("system", "be brief"), Message("user", "go on")]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    found = ChatServer()
    yield found
    found.close()


@pytest.fixture
def policy(server: ChatServer) -> Iterator[EndpointPolicy]:
    found = EndpointPolicy("m", server.url, "secret", timeout=0.5)
    yield found
    found.close()


def test_calls_tokens_and_thinking_come_back(server: ChatServer, policy: EndpointPolicy) -> None:
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


def test_half_of_the_tokens_is_none(server: ChatServer, policy: EndpointPolicy) -> None:
    server.respond = lambda body, n: (200, answer("x", choice={"token_ids": [4, 5]}, prompt_token_ids=[1]))
    assert policy.sample(ASKED, [], Sampling()).tokens is None


def test_a_server_without_token_ids_is_asked_without(server: ChatServer, policy: EndpointPolicy) -> None:
    server.respond = lambda body, n: (
        (400, {"error": {"message": "unknown"}}) if "logprobs" in body else (200, answer("x"))
    )
    assert policy.sample(ASKED, [], Sampling()).message.content == "x"
    assert policy.sample(ASKED, [], Sampling()).message.content == "x"
    assert len(server.bodies) == 3, "the second time it is known"


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
    server: ChatServer, policy: EndpointPolicy, status: int, sent: Any, retry: bool
) -> None:
    server.respond = lambda body, n: (status, sent)
    with pytest.raises(PolicyError) as raised:
        policy.sample(ASKED, [], Sampling())
    assert raised.value.retry is retry and str(raised.value)


def test_who_does_not_answer_in_time_is_asked_again(
    server: ChatServer, policy: EndpointPolicy, monkeypatch: pytest.MonkeyPatch
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
    server: ChatServer, policy: EndpointPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.01)
    server.respond = lambda body, n: (500, {"error": {"message": "down"}})
    several = Asking(policy, 1)
    several.ask(Episode(1, 0, tuple(ASKED), Limits()), [], Sampling())
    found = several.next()
    several.close()
    assert found.sampled is None and "500" in found.fault and len(server.bodies) == asking.TRIES


def test_the_model_that_answered_is_kept(server: ChatServer, policy: EndpointPolicy) -> None:
    """A provider may change its model half way: each turn says which it was."""
    server.respond = lambda body, n: (200, answer("x") | {"model": f"m-{n}"})
    assert [policy.sample(ASKED, [], Sampling()).policy for _ in range(2)] == ["m-1", "m-2"]
