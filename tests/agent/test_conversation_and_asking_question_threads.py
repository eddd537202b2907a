"""Questions that are asked in threads: the answers come back with what was known when they were asked."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from sciagent.agent import conversation_and_asking
from sciagent.agent.conversation_and_asking import Asking, Episode, EpisodeLimits
from sciagent.agent.messages_sampling_and_policy_client import Message, Sampling
from sciagent.agent.policies.endpoint_requests_and_answers import EndpointPolicy
from sciagent.store.campaign_state.proposer_trajectories import Asked
from tests.support.chat_server import ChatServer, answer


@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_and_a_fault_say_when_the_question_was_asked(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(conversation_and_asking, "FIRST_PAUSE", 0.01)
    server.respond = lambda body, n: (status, answer("x") if status == 200 else {"error": {"message": "no"}})
    bell, asked = threading.Event(), Asked(7, datetime(2026, 1, 2, tzinfo=UTC))
    asking = Asking(EndpointPolicy("m", server.url), 1, bell, lambda message: {})
    asking.ask(Episode(1, 0, (Message("user", "go on"),), EpisodeLimits()), [], Sampling(), asked)
    found = asking.next()
    asking.close()
    assert found.asked == asked and (found.sampled is not None) == (status == 200) and bell.is_set()
