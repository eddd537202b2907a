"""A conversation: what the model is shown again, when a new branch begins, what a resumed one holds."""

from __future__ import annotations

import pytest

from sciagent.agent.conversation_and_asking import KEPT_TURNS, Episode, EpisodeLimits, Thinking
from sciagent.agent.messages_sampling_and_policy_client import Message, Sampled, from_json, to_json

OPENING = (Message("system", "search"), Message("user", "find"))


def said(content: str, thinking: str = "", *, prompt: int = 10, output: int = 5) -> Sampled:
    return Sampled(
        Message("assistant", content, thinking, thought_in="reasoning"), "stop", None, "m", prompt, output, 1
    )


def episode(thinking: Thinking = "preserve", **limits: int) -> Episode:
    return Episode(1, 0, OPENING, EpisodeLimits(thinking=thinking, **limits))


def thoughts(one: Episode) -> list[str]:
    return [message.thinking for message in one.messages if message.role == "assistant"]


def test_what_was_thought_is_shown_again_or_left_out() -> None:
    for mode, shown in (("preserve", ["first", "second"]), ("strip", ["", ""])):
        one = episode(mode)
        one.observe(said("a", "first"), [Message("user", "seen")])
        one.observe(said("b", "second"), [Message("user", "seen")])
        assert thoughts(one) == shown
        assert [message.content for message in one.messages] == ["search", "find", "a", "seen", "b", "seen"]


@pytest.mark.parametrize("thinking", ["preserve", "strip"])
def test_who_resumes_holds_the_same_conversation(thinking: Thinking) -> None:
    first, again = episode(thinking, context=60), episode(thinking, context=60)
    for n in range(8):
        answer, seen = said(f"a{n}", "because", prompt=8 * n), Message("user", f"seen {n}")
        first.observe(answer, [seen], ["C" * n] if n % 2 else ())
        again.restore((from_json(to_json(answer.message)), seen), first.cursor)
        assert again.messages == first.messages and again.cursor == first.cursor
    assert again.numbered == first.numbered == ["C", "CCC", "CCCCC", "CCCCCCC"]


def test_a_conversation_that_comes_near_its_context_begins_a_branch_with_its_latest_turns() -> None:
    one = episode(context=1000)
    for n in range(9):
        one.observe(said(f"a{n}", prompt=100 * n), [Message("user", f"seen {n}")])
    assert one.first == 9 - KEPT_TURNS
    shown = [message.content for message in one.messages]
    assert shown[:2] == ["search", "find"] and "Turns 1 to 5 are left out" in shown[2]
    assert shown[3:] == [text for n in range(5, 9) for text in (f"a{n}", f"seen {n}")]


@pytest.mark.parametrize(
    ("limits", "why"),
    [({"turns": 2}, "2 turns"), ({"tokens": 10}, "10 tokens"), ({"seconds": 2}, "2 seconds of the model")],
)
def test_it_is_over_by_its_limits_and_says_by_which(limits: dict[str, int], why: str) -> None:
    one = episode(**limits)
    one.observe(said("a"), [])
    assert one.ended is None
    one.observe(said("b"), [])
    assert one.ended == why
