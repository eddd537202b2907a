"""A model behind an OpenAI-compatible server: a hosted provider, or vLLM, which tells tokens and log-probabilities."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sciagent.agent.messages import Message, PolicyError, Sampled, Sampling, Tokens, ToolCall
from sciagent.agent.thinking import CLOSE, OPEN, split_thinking
from sciagent.errors import UsageError

MAX_CONTENT = 200_000  # characters of an answer that are kept
MAX_CALLS = 64
THOUGHTS = ("reasoning", "reasoning_content")  # where servers put what a model thought, if not into its answer


class EndpointPolicy:
    """model: as the server calls it. timeout: seconds that one answer may take."""

    def __init__(self, model: str, base_url: str, api_key: str | None = None, timeout: float = 600.0) -> None:
        try:
            import openai
        except ModuleNotFoundError as error:
            raise UsageError("an endpoint needs an extra: pip install 'sciagent[llm]'") from error
        self.name = model
        self._openai = openai
        # we ask again ourselves, with pauses, and write down what went wrong
        self._plain = False  # the server knows neither token ids nor log-probabilities
        self._client = openai.OpenAI(base_url=base_url, api_key=api_key or "none", timeout=timeout, max_retries=0)

    def sample(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling
    ) -> Sampled:  # fmt: skip
        asked: dict[str, Any] = {
            "model": self.name, "messages": [_sent(one) for one in messages], "temperature": sampling.temperature,
            "top_p": sampling.top_p, "max_tokens": sampling.max_tokens, "logprobs": True,
            "extra_body": {"return_token_ids": True},
        }  # fmt: skip
        if sampling.seed is not None:
            asked["seed"] = sampling.seed
        if sampling.schema is not None:
            form = {"name": "call", "strict": True, "schema": sampling.schema}
            asked["response_format"] = {"type": "json_schema", "json_schema": form}
        elif tools:
            asked["tools"] = list(tools)
        began = time.monotonic()
        found = self._asked(asked)
        return _parsed(found, sampling, self.name, time.monotonic() - began)

    def _asked(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer as JSON. A server that knows neither token ids nor log-probabilities is asked without."""
        openai = self._openai
        if self._plain:
            asked = _without_tokens(asked)
        try:
            return dict(self._client.chat.completions.create(**asked).model_dump())
        except (openai.APITimeoutError, openai.APIConnectionError) as error:
            raise PolicyError(f"{self.name} did not answer: {error}", retry=True) from error
        except openai.APIStatusError as error:
            if error.status_code in (400, 422) and "logprobs" in asked:
                found = self._asked(_without_tokens(asked))
                self._plain = True
                return found
            again = error.status_code in (408, 409, 429) or error.status_code >= 500
            raise PolicyError(f"{self.name} answered {error.status_code}: {str(error)[:300]}", retry=again) from error
        except (openai.OpenAIError, ValueError, TypeError) as error:  # what came is no answer: a stream that was cut
            raise PolicyError(f"{self.name} sent what cannot be read: {str(error)[:300]}", retry=True) from error

    def close(self) -> None:
        self._client.close()


def _without_tokens(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in asked.items() if name not in ("logprobs", "extra_body")}


def _sent(one: Message) -> dict[str, Any]:
    found: dict[str, Any] = {"role": one.role, "content": one.content}
    if one.thought_in:
        found[one.thought_in] = one.thinking
    elif one.thinking:
        found["content"] = f"{OPEN}{one.thinking}{CLOSE}{one.content}"
    if one.calls:
        found["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in one.calls
        ]
    if one.role == "tool":
        found["tool_call_id"] = one.call_id
    return found


def _parsed(found: Mapping[str, Any], sampling: Sampling, name: str, seconds: float) -> Sampled:
    choices = found.get("choices") or []
    if not choices or not isinstance(choices[0], Mapping) or not isinstance(choices[0].get("message"), Mapping):
        raise PolicyError(f"{name} sent no answer: {json.dumps(found, default=str)[:300]}", retry=True)
    choice, message = choices[0], choices[0]["message"]
    calls = []
    for place, one in enumerate((message.get("tool_calls") or [])[:MAX_CALLS]):
        function = one.get("function") or {}
        id_ = str(one.get("id") or f"call-{place}")[:200]
        calls.append(ToolCall(id_, str(function.get("name") or ""), str(function.get("arguments") or "")))
    said, thinking = split_thinking(str(message.get("content") or "")[:MAX_CONTENT])
    thought_in = next((name for name in THOUGHTS if message.get(name)), "")
    thinking = str(message.get(thought_in) or "")[:MAX_CONTENT] or thinking
    usage = found.get("usage") or {}
    finish = "length" if choice.get("finish_reason") == "length" else "calls" if calls else "stop"
    tokens = _tokens(found, choice, sampling)
    return Sampled(
        Message("assistant", said, thinking, tuple(calls), thought_in=thought_in), finish, tokens,
        str(found.get("model") or name)[:200],
        int(usage.get("prompt_tokens") or (len(tokens.prompt_ids) if tokens else 0)),
        int(usage.get("completion_tokens") or (len(tokens.output_ids) if tokens else 0)), seconds,
    )  # fmt: skip


def _tokens(found: Mapping[str, Any], choice: Mapping[str, Any], sampling: Sampling) -> Tokens | None:
    """None unless ids of prompt and output and a log-probability of each are there: half of them trains nothing."""
    prompt = found.get("prompt_token_ids") or choice.get("prompt_token_ids")
    output, logprobs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("content")
    if not prompt or not output or not logprobs or len(output) != len(logprobs):
        return None
    values = tuple(float(one["logprob"]) for one in logprobs)
    # a server does not say which tokens its grammar forced: those that had no choice have probability 1
    forced = tuple(sampling.schema is not None and value == 0.0 for value in values)
    hashed = str(found.get("chat_template_hash") or "server")[:64]
    return Tokens(tuple(map(int, prompt)), tuple(map(int, output)), values, forced, "raw", hashed)
