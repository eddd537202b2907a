"""Reads the answers of an OpenAI-compatible server. Every field is checked: it may be missing, of another type, or hold
characters that a database cannot store."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from sciagent.agent.messages import NO_CHANCE, LogprobMode, Message, Sampled, Sampling, Tokens, ToolCall, split_thinking
from sciagent.domain.text import storable

MAX_CONTENT = 200_000  # characters of a text; the rest is cut
MAX_CALLS = 64
MAX_COUNT = 10**9  # largest token count that is accepted from a server
THOUGHTS = ("reasoning", "reasoning_content")  # fields in which servers put the thinking, if not into the content

LogprobSource = Literal["raw", "processed"] | None
"""The distribution of a server's log-probabilities; None if unknown."""

GrammarEngine = Literal["llguidance"] | None
"""The library that enforces schemas in a server by the rules of this process; None if unknown."""

SERVER = "server"  # the hash of a chat template that only the server knows
GRAMMAR = "a grammar of the server restricted the answer, and the tokens that it allowed are not known"


def read_answer(text: str, strike: Callable[[str], str]) -> Mapping[str, Any]:
    """Returns the answer as JSON with storable texts. strike: removes the API key from a text; it runs after parsing,
    since JSON escapes may hide the key. Raises ValueError with the fault."""

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return strike(storable(value))
        if isinstance(value, dict):
            return {clean(name): clean(entry) for name, entry in value.items()}
        return [clean(entry) for entry in value] if isinstance(value, list) else value

    try:
        answer = clean(json.loads(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    if not isinstance(answer, dict):
        raise ValueError(f"no JSON object: {strike(storable(text))[:100]}")
    return answer


def sampled_of(
    answer: Mapping[str, Any],
    sampling: Sampling,
    name: str,
    seconds: float,
    with_tools: bool,
    source: LogprobSource,
    engine: GrammarEngine = None,
) -> Sampled:
    """Returns the sampled message of an answer. name: the requested model. with_tools: whether tools were offered.
    engine: what enforced a schema. Raises ValueError if the answer has no message or malformed calls."""
    choices = answer.get("choices")
    choice = _entry(choices[0], "choices") if isinstance(choices, list) and choices else {}
    if not isinstance(choice.get("message"), dict):
        raise ValueError(f"no message in it: {json.dumps(answer)[:300]}")
    given = choice["message"]
    content, calls = _text(given.get("content")), _calls(given.get("tool_calls"))
    visible, thinking = split_thinking(content)
    thought_in = next((field for field in THOUGHTS if _text(given.get(field))), "")
    message = Message("assistant", visible, _text(given.get(thought_in)) or thinking, calls, thought_in=thought_in)
    finish = "length" if choice.get("finish_reason") == "length" else "calls" if calls else "stop"
    grammar = sampling.schema is not None or (with_tools and _restricts_calls(sampling, calls, content))
    mode, is_known = _mode(sampling, grammar, source), engine is not None and sampling.schema is not None
    tokens = _tokens(answer, choice, grammar, sampling, mode, is_known)
    usage = answer["usage"] if isinstance(answer.get("usage"), dict) else {}
    prompt_tokens = _count(usage.get("prompt_tokens")) or len(tokens.prompt_ids if tokens else ())
    output_tokens = _count(usage.get("completion_tokens")) or len(tokens.output_ids if tokens else ())
    policy = (_text(answer.get("model")) or name)[:200]
    return Sampled(message, finish, tokens, policy, prompt_tokens, output_tokens, seconds, grammar=grammar)


def _restricts_calls(sampling: Sampling, calls: tuple[ToolCall, ...], content: str) -> bool:
    """Whether a grammar restricted an answer to which tools were offered. That of strict tools begins with a call; the
    text of an incomplete call stays in the content."""
    begun = bool(calls) or "tool_call" in content or "<function" in content
    return sampling.call or (sampling.strict and begun)


def _calls(given: object) -> tuple[ToolCall, ...]:
    """Returns the calls of an answer. Raises ValueError if they are not a list of calls."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise ValueError("its tool_calls are no list; send a list of calls, or none")
    calls = []
    for place, entry in enumerate(given[:MAX_CALLS]):
        call = _entry(entry, "tool_calls")
        function = _entry(call.get("function") or {}, "tool_calls.function")
        arguments = function.get("arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""
        calls.append(ToolCall(_text(call.get("id"))[:200] or f"call-{place}", _text(function.get("name")), written))
    return tuple(calls)


def _mode(sampling: Sampling, grammar: bool, source: LogprobSource) -> LogprobMode:
    """Returns the distribution of the log-probabilities. vLLM applies the grammar before it takes even raw ones. At
    temperature 1, raw and processed differ in nothing else."""
    if sampling.temperature != 1 and source != "raw":
        return source or "unknown"
    return "masked" if grammar else "raw"


def _untrainable(sampling: Sampling, grammar: bool, mode: LogprobMode, is_known: bool) -> str:
    """Returns why no policy gradient may use the tokens; empty if one may. is_known: whether the tokens that a grammar
    allowed can be found again."""
    if sampling.temperature <= 0:
        return NO_CHANCE
    if not _is_behaviour(sampling, mode):
        return f"drawn at temperature {sampling.temperature:g}, with log-probabilities that are {mode}: see `logprobs`"
    return GRAMMAR if grammar and not is_known else ""


def _is_behaviour(sampling: Sampling, mode: LogprobMode) -> bool:
    """Whether the log-probabilities are those of the distribution that the tokens were drawn from."""
    return mode == "processed" or (sampling.temperature == 1 and mode in ("raw", "masked"))


def _tokens(
    answer: Mapping[str, Any],
    choice: Mapping[str, Any],
    grammar: bool,
    sampling: Sampling,
    mode: LogprobMode,
    is_known: bool,
) -> Tokens | None:
    """Returns the tokens; None unless all ids and log-probabilities are present, since training needs them all."""
    prompt: Any = answer.get("prompt_token_ids") or choice.get("prompt_token_ids")
    output: Any = choice.get("token_ids")
    logprobs = _logprobs(choice)
    if not _are_ids(prompt) or not _are_ids(output) or logprobs is None or len(output) != len(logprobs):
        return None
    # the server does not mark forced tokens; a token without alternatives has probability 1
    forced = tuple(grammar and value == 0 for value in logprobs)
    template = _text(answer.get("chat_template_hash"))[:64] or SERVER
    behaviour = logprobs if _is_behaviour(sampling, mode) else None
    why = _untrainable(sampling, grammar, mode, is_known)
    return Tokens(tuple(prompt), tuple(output), logprobs, forced, mode, template, behaviour=behaviour, untrainable=why)


def _logprobs(choice: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Returns the log-probabilities of the sampled tokens; None if one is missing or no finite number."""
    given = choice.get("logprobs")
    entries = given.get("content") if isinstance(given, dict) else None
    if not isinstance(entries, list):
        return None
    values: list[Any] = [entry.get("logprob") if isinstance(entry, dict) else None for entry in entries]
    are_numbers = all(type(value) in (int, float) and math.isfinite(value) for value in values)
    return tuple(map(float, values)) if are_numbers else None


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(id_) is int and 0 <= id_ < 1 << 31 for id_ in value)


def _entry(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"an entry of its {where} is no JSON object")
    return value


def _text(value: object) -> str:
    return value[:MAX_CONTENT] if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value <= MAX_COUNT else 0
