"""Questions that are asked in threads: the answers come back with what was known when they were asked."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from sciagent.agent import conversation_and_asking
from sciagent.agent.conversation_and_asking import Asking, Episode, EpisodeLimits, RequestLimit, sample_patiently
from sciagent.agent.messages_sampling_and_policy_client import Message, PolicyError, Sampled, Sampling
from sciagent.agent.policies.endpoint_requests_and_answers import EndpointPolicy
from sciagent.domain.policy_identity import PolicyIdentity
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


class LimitedPolicy:
    """Fails with the given errors, one after the other, and then answers."""

    name = "m"

    def __init__(self, *errors: PolicyError) -> None:
        self.errors = list(errors)

    def sample(self, messages: object, tools: object, sampling: Sampling) -> Sampled:
        if self.errors:
            raise self.errors.pop(0)
        return Sampled(Message("assistant", "x"), "stop", None, "m", 1, 1, 0.0)

    def identity(self, served: str) -> PolicyIdentity:
        return PolicyIdentity(served, "here")

    def close(self) -> None: ...


class CountedWaits(threading.Event):
    """An event whose waits take no time and are written down, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return False


def busy(after: float | None = None) -> PolicyError:
    return PolicyError("m answered 429: slow down", retry=True, is_limit=True, after=after)


def test_the_wait_that_a_server_asks_for_is_kept_and_told() -> None:
    stop = CountedWaits()
    limits: list[RequestLimit] = []
    began = datetime.now(UTC)
    sample_patiently(LimitedPolicy(busy(30.0), busy(0.0)), [], [], Sampling(), stop=stop, limited=limits.append)
    assert stop.waits == [30.0, 1.0], "a second at least"
    assert 29 <= (limits[0].until - began).total_seconds() <= 32 and "slow down" in limits[0].why


def test_a_limit_uses_up_no_try_and_its_pauses_double_up_to_a_minute() -> None:
    stop = CountedWaits()
    sample_patiently(LimitedPolicy(*(busy() for _ in range(9))), [], [], Sampling(), stop=stop)
    assert stop.waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_limit_that_outlasts_the_patience_is_a_fault_at_once() -> None:
    stop = CountedWaits()
    with pytest.raises(PolicyError, match=r"slow down \(limited until \d\d:\d\d UTC, and asked for 15 min at most"):
        sample_patiently(LimitedPolicy(busy(1e9)), [], [], Sampling(), stop=stop)
    assert stop.waits == []


def test_the_longest_of_the_limits_is_told_once() -> None:
    bell = threading.Event()
    asking = Asking(LimitedPolicy(busy(5.0)), 1, bell, lambda message: {})
    asking.ask(Episode(1, 0, (Message("user", "go on"),), EpisodeLimits()), [], Sampling())
    assert bell.wait(20)
    limit = asking.new_limit()
    assert limit is not None and limit.why.endswith("slow down") and asking.new_limit() is None
    asking.close()
