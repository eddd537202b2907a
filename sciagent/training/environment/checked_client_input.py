"""Reads what clients of an environment state: messages, usage of tokens, names and numbers.

Each statement is checked for its type and its size, and is never taken as an instruction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, PolicyError, Sampled, Sampling
from sciagent.agent.policies.endpoint_requests_and_answers import MAX_COUNT, read_answer, sampled_of
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.domain.safe_text_and_durations import storable
from sciagent.errors import EpisodeError
from sciagent.store.campaign_state.proposer_trajectories import Purpose

MAX_MESSAGE = 250_000  # characters of a message as JSON
MAX_NAME = 200  # characters of the name of a policy or of a group
MAX_SIBLINGS = 1000
MAX_SEED = 2**53  # the whole numbers that JSON keeps exactly
PURPOSES = tuple(name for name in get_args(Purpose) if name != "campaign")
"""Purposes of an episode that a client may state; `campaign` is the purpose of the campaign's own proposer."""
MAX_SHOWN = 60  # characters of a client's value that a message shows


@dataclass(frozen=True)
class EpisodeRequest:
    """An episode as a client asks for it. All requests that name the same group must be equal."""

    task: int | None = None
    """Number of the task; it determines the seed. None: no task is stated."""
    seed: int | None = None
    """Seed of the tools' random choices. If neither a seed nor a task is stated, the group's number decides them."""
    group: str | None = None
    """Name that the client gives to a group; None: the episode is alone."""
    siblings: int = 1
    """Number of episodes of the group."""
    policy: str = "client"
    """Name and version of the client's policy."""
    purpose: Purpose = "rollout"

    def __post_init__(self) -> None:
        """Raises EpisodeError for a value of another type or out of range."""
        for name, number, least, most in (
            ("task", self.task, 0, MAX_SEED),
            ("seed", self.seed, 0, MAX_SEED),
            ("siblings", self.siblings, 1, MAX_SIBLINGS),
        ):
            if number is not None and (type(number) is not int or not least <= number <= most):
                raise EpisodeError(400, f"{name}: {shown(number)} is no whole number from {least} to {most}")
        for name, text in (("group", self.group), ("policy", self.policy)):
            if text is not None:
                _check_name(name, text)
        if self.purpose not in PURPOSES:
            raise EpisodeError(400, f"purpose: {shown(self.purpose)} is none of {', '.join(PURPOSES)}")
        if self.siblings > 1 and self.group is None:
            raise EpisodeError(400, "siblings: a group of several episodes needs a name; state `group` as well")
        if self.task is not None and self.seed is not None:
            raise EpisodeError(400, "task and seed: a task has its own seed; state one of them")


def _check_name(key: str, name: object) -> None:
    """Raises EpisodeError if the value is no name. key: the key of the request under which it was stated."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise EpisodeError(400, f"{key}: {shown(name)} is no name of 1 to {MAX_NAME} characters")
    if storable(name) != name:
        raise EpisodeError(400, f"{key}: {shown(name)} has characters that no database stores")


@dataclass
class ClientPolicy:
    """A policy that answers elsewhere; only its name is known."""

    name: str

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        """Returns an error for each question: the client sends its answers itself."""
        return [PolicyError(f"{self.name} runs at a client, which sends its answers itself") for _ in questions]

    def identity(self, served: str) -> PolicyIdentity:
        return PolicyIdentity(served, "client")

    def close(self) -> None:
        """Does nothing: the policy lives elsewhere."""


def stated_answer(message: object, usage: object, policy: str) -> Sampled:
    """Returns the answer that a client states.

    message: an assistant's message in OpenAI's format. usage: its `prompt_tokens` and `completion_tokens`, which are
    charged; None: no tokens are charged. policy: name and version of the client's policy. Raises EpisodeError.
    """
    if not isinstance(message, Mapping):
        raise EpisodeError(400, "message: must be a JSON object, an assistant's message in OpenAI's format")
    if message.get("role", "assistant") != "assistant":
        raise EpisodeError(400, f"message.role: {shown(message['role'])} is not assistant")
    if not isinstance(message.get("content"), str | None):
        raise EpisodeError(400, "message.content: must be a text or null; join the parts of other formats to one text")
    try:
        text = json.dumps({"choices": [{"message": message}], "usage": _usage(usage)})
        if len(text) > MAX_MESSAGE:
            raise EpisodeError(413, f"message: {len(text)} characters; the limit is {MAX_MESSAGE}")
        parsed = read_answer(text, strike=str)  # there is no API key to remove
        return sampled_of(parsed, Sampling(), policy, seconds=0.0, with_tools=False, source=None)
    except (ValueError, TypeError, RecursionError) as error:
        raise EpisodeError(400, f"message: {error}") from None


def stated_call(name: object, arguments: object) -> Mapping[str, Any]:
    """Returns a message with one tool call. arguments: a JSON object, or its text. Raises EpisodeError."""
    if not isinstance(name, str):
        raise EpisodeError(400, f"name: {shown(name)} is no name of a tool")
    if not isinstance(arguments, Mapping | str):
        raise EpisodeError(400, "arguments: must be a JSON object")
    function = {"name": name, "arguments": arguments if isinstance(arguments, str) else dict(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}


def _usage(usage: object) -> Mapping[str, int]:
    """Returns the numbers of tokens that a client states; empty if it states none. Raises EpisodeError."""
    if usage is None:
        return {}
    if not isinstance(usage, Mapping):
        raise EpisodeError(400, "usage: must be a JSON object with prompt_tokens and completion_tokens")
    counts = {name: usage.get(name, 0) for name in ("prompt_tokens", "completion_tokens")}
    for name, count in counts.items():
        if type(count) is not int or not 0 <= count <= MAX_COUNT:
            raise EpisodeError(400, f"usage.{name}: {shown(count)} is no number of tokens")
    return counts


def shown(value: object) -> str:
    """Returns a value of a client as a text for a message, cut to `MAX_SHOWN` characters."""
    text = repr(value)
    if len(text) <= MAX_SHOWN:
        return text
    return text[: MAX_SHOWN - 1] + "…"
