"""The live ladder as environments of TRL's GRPOTrainer, which calls tools as methods and asks for a reward at the end.

`TrlLadder` makes the environments, each for one episode after another. Each tool call is a turn. TRL does not say how
many tokens it sampled, so no tokens are charged. TRL itself is not imported.
"""

from __future__ import annotations

import inspect
import json
import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sciagent.agent.conversation_and_asking import SYSTEM
from sciagent.store.campaign_state.proposer_trajectories import Purpose
from sciagent.training.environment.environment import Environment, LadderEpisode

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


class TrlLadder:
    """A factory of TRL's environments, each for one episode at a time: the `environment_factory` of GRPOTrainer."""

    def __init__(self, environment: Environment, siblings: int, *, wait: float = 600.0, policy: str = "trl") -> None:
        """siblings: the `num_generations` of the trainer, the number of episodes of a task that begin alike and are
        compared. wait: longest time, in seconds, from the last call of an episode to its reward. An episode that is
        still undecided then gets no reward, and TRL leaves it out. policy: name and version of the model in the ledger.
        """
        self.environment = environment
        self.siblings = siblings
        self.wait = wait
        self.policy = policy
        """Name and version of the model in the ledger; a new one for new weights."""
        self._open: list[_TrlEpisode] = []
        """The episodes that go on."""
        functions = [schema["function"] for schema in environment.tools(policy)]
        methods = {function["name"]: _method(function) for function in functions}
        self._episode_class = type("Ladder", (_TrlEpisode,), methods)
        """The class of the environments, with a method for each tool."""

    def __call__(self) -> Any:
        """Returns a new environment of TRL."""
        return self._episode_class(self)

    def note_open(self, episode: _TrlEpisode) -> None:
        """Notes an episode that goes on."""
        self._open.append(episode)

    def end_all(self) -> None:
        """Ends the episodes that go on.

        TRL asks for the first reward once it has sampled all episodes. While the first reward is waited for, the other
        episodes would count as left by their client.
        """
        while self._open:
            self._open.pop()._leave()

    def prompts(self, n: int, purpose: Purpose = "rollout") -> list[dict[str, object]]:
        """Returns n rows of a data set for GRPOTrainer, one for each task.

        The user's message is empty: when an episode begins, the environment adds the goal and the known candidates.
        """
        opening = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ""}]
        return [{"prompt": opening, "task": task.task, "purpose": purpose} for task in self.environment.tasks(n)]


class _TrlEpisode:
    """An environment of TRL. TRL offers all its public methods as tools, except `reset` and `get_reward`."""

    def __init__(self, ladder: TrlLadder) -> None:
        self._ladder = ladder
        self._episode: LadderEpisode | None = None
        self._ended: str | None = None
        """Why the episode has ended; None while it goes on."""
        self._replied_at = 0.0  # time of the last reply, in seconds of the monotonic clock

    def reset(self, task: int | None = None, purpose: Purpose = "rollout", **row: Any) -> str:
        """Opens the next episode of a task; returns the text that TRL appends to the last message of the prompt.

        row: the other columns of the data set's row. A prompt without a system message gets the instructions here.
        """
        ladder = self._ladder
        group = f"{purpose} of task {task}"
        self._ended = None
        self._episode = ladder.environment.open(
            task, group=group, siblings=ladder.siblings, policy=ladder.policy, purpose=purpose
        )
        self._replied_at = time.monotonic()
        ladder.note_open(self)
        contents = {message["role"]: str(message["content"]) for message in self._episode.messages}
        is_instructed = any(message["role"] == "system" for message in row.get("prompt", ()))
        return contents["user"] if is_instructed else f"{contents['system']}\n\n{contents['user']}"

    def get_reward(self) -> float | None:
        """Ends the episode; returns its reward in hits or utility, None if it is undecided."""
        assert self._episode is not None  # TRL resets an environment first
        self._ladder.end_all()
        waited_seconds = time.monotonic() - self._replied_at
        remaining_seconds = max(0.0, self._ladder.wait - waited_seconds)
        return self._episode.end(remaining_seconds).outcome

    def _leave(self) -> None:
        """Ends the episode without waiting for its reward."""
        if self._episode is not None:
            self._episode.end()

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Takes a turn with one tool call; returns the text of the reply. name: of the tool."""
        assert self._episode is not None
        if self._ended is not None:
            return f"The episode has ended: {self._ended}."
        reply = self._episode.call(name, arguments)
        self._ended = reply.ended
        self._replied_at = time.monotonic()
        return "\n".join(str(message["content"]) for message in reply.messages)


def _method(function: Mapping[str, Any]) -> Callable[..., str]:
    """Returns a tool as a method. Transformers makes the tool's schema again from its signature and its docstring.

    The method takes any arguments, so that the ladder itself answers wrong ones. function: the key `function` of a
    tool's schema in OpenAI's format.
    """
    properties: Mapping[str, Mapping[str, Any]] = function["parameters"]["properties"]

    def method(self: _TrlEpisode, **arguments: Any) -> str:
        return self._call(function["name"], arguments)

    hints = {name: _hint(schema) for name, schema in properties.items()}
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name, hint in hints.items():
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint))
    lines = [f"    {name}: {_description(name, schema)}" for name, schema in properties.items()]
    method.__name__ = function["name"]
    method.__qualname__ = function["name"]
    docstring = [function["description"]]
    if lines:
        docstring += ["", "Args:", *lines]
    method.__doc__ = "\n".join(docstring)
    method.__annotations__ = hints | {"return": str}
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return method


def _variants(schema: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Returns the schemas of the types that an argument may have."""
    variants: Sequence[Mapping[str, Any]] = schema.get("anyOf", [schema])
    return variants


def _hint(schema: Mapping[str, Any]) -> Any:
    """Returns the type of an argument, with None if it may be null."""
    kinds = [each["type"] for each in _variants(schema)]
    kinds_of_value = [each for each in kinds if each != "null"]
    hint: Any = TYPES[kinds_of_value[0]]
    if "items" in schema:
        hint = types.GenericAlias(list, TYPES[schema["items"]["type"]])
    return hint | None if "null" in kinds else hint


def _description(name: str, schema: Mapping[str, Any]) -> str:
    """Returns the description of an argument in one line, with its limits and its choices, which no type states."""
    phrases = [" ".join(str(schema.get("description", name)).split())]
    for each in _variants(schema):
        if "minimum" in each and "maximum" in each:
            phrases.append(f"from {each['minimum']:g} to {each['maximum']:g}")
    properties_of_item = schema.get("items", {}).get("properties")
    if properties_of_item is not None:
        described = [f"{key} ({item['description']})" for key, item in properties_of_item.items()]
        phrases.append(f"each with {', '.join(described)}")
    choices: list[Any] = []
    for each in _variants(schema):
        choices.extend(each.get("enum", ()))
    text = "; ".join(phrases)
    return f"{text} (choices: {json.dumps(choices)})" if choices else text
