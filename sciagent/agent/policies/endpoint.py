"""A model behind an OpenAI-compatible server: a hosted provider, or vLLM, which tells tokens and log-probabilities."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sciagent.agent.messages import LogprobMode, Message, PolicyError, Sampled, Sampling, Tokens, ToolCall
from sciagent.agent.policies.refusals import Refusal, adapted, refusal
from sciagent.agent.thinking import CLOSE, OPEN, split_thinking
from sciagent.errors import UsageError

MAX_CONTENT = 200_000  # characters of an answer that are kept
MAX_CALLS = 64
THOUGHTS = ("reasoning", "reasoning_content")  # where servers put what a model thought, if not into its answer
_MARK = re.compile(
    r"<(?=[|\uff5c]|/?s>|(?:start|end|begin)_of_\w+>)"
)  # how chat templates mark where messages begin and end
Told = Literal["raw", "processed"] | None


class EndpointPolicy:
    """model: as the server calls it. timeout: seconds that one answer may take. logprobs: of which distribution the
    server tells them, where that is known."""

    def __init__(
        self, model: str, base_url: str, api_key: str | None = None, timeout: float = 600.0, logprobs: Told = None
    ) -> None:
        try:
            import openai
        except ModuleNotFoundError as error:
            raise UsageError("an endpoint needs an extra: pip install 'sciagent[llm]'") from error
        self.name = model
        self._openai, self._logprobs = openai, logprobs
        self._known: frozenset[Refusal] = frozenset()  # what this server does not take
        # we ask again ourselves, with pauses, and write down what went wrong
        self._client = openai.OpenAI(base_url=base_url, api_key=api_key or "none", timeout=timeout, max_retries=0)

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        asked: dict[str, Any] = {
            "model": self.name,
            "messages": [_sent(one) for one in messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "logprobs": True,
            # the others: else a server of vLLM samples as the model's authors would, and nobody is told
            "extra_body": {"return_token_ids": True, "top_k": sampling.top_k, "min_p": 0.0, "repetition_penalty": 1.0},
        }
        if sampling.seed is not None:
            asked["seed"] = sampling.seed
        if sampling.schema is not None:
            form = {"name": "call", "strict": True, "schema": sampling.schema}
            asked["response_format"] = {"type": "json_schema", "json_schema": form}
        elif tools:
            asked["tools"] = list(tools)
            if sampling.call:
                asked["tool_choice"] = "required"
        began = time.monotonic()
        found = self._asked(asked)
        return _parsed(found, sampling, self.name, time.monotonic() - began, "tools" in asked, self._logprobs)

    def _asked(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer as JSON. A server that refuses something is asked otherwise, and if that helps, from then on."""
        openai, known = self._openai, self._known
        while True:
            try:
                found = dict(self._client.chat.completions.create(**adapted(asked, known)).model_dump())
            except (openai.APITimeoutError, openai.APIConnectionError) as error:
                raise PolicyError(f"{self.name} did not answer: {error}", retry=True) from error
            except openai.APIStatusError as error:
                status, said = error.status_code, str(error)
                if (refused := refusal(status, said, known)) is None:
                    again = status in (408, 409, 429) or status >= 500
                    raise PolicyError(f"{self.name} answered {status}: {said[:300]}", retry=again) from error
                known |= {refused}
            except (
                openai.OpenAIError,
                ValueError,
                TypeError,
            ) as error:  # what came is no answer: a stream that was cut
                raise PolicyError(f"{self.name} sent what cannot be read: {str(error)[:300]}", retry=True) from error
            else:
                self._known |= known
                return found

    def close(self) -> None:
        self._client.close()


def _sent(one: Message) -> dict[str, Any]:
    """A mark of a chat template in a text is split by a blank, as `hermes.rendered` does it: what a tool or a user
    wrote cannot end its message and begin another."""
    content, thinking = _MARK.sub("< ", one.content), _MARK.sub("< ", one.thinking)
    found: dict[str, Any] = {"role": one.role, "content": content}
    if one.thought_in:
        found[one.thought_in] = thinking
    elif one.thinking:
        found["content"] = f"{OPEN}{thinking}{CLOSE}{content}"
    if one.calls:
        found["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in one.calls
        ]
    if one.role == "tool":
        found["tool_call_id"] = one.call_id
    return found


def _parsed(
    found: Mapping[str, Any], sampling: Sampling, name: str, seconds: float, with_tools: bool, told: Told
) -> Sampled:
    choices = found.get("choices") or []
    if not choices or not isinstance(choices[0], Mapping) or not isinstance(choices[0].get("message"), Mapping):
        raise PolicyError(f"{name} sent no answer: {json.dumps(found, default=str)[:300]}", retry=True)
    choice, message = choices[0], choices[0]["message"]
    calls = []
    for place, one in enumerate((message.get("tool_calls") or [])[:MAX_CALLS]):
        function = one.get("function") or {}
        id_ = str(one.get("id") or f"call-{place}")[:200]
        calls.append(ToolCall(id_, str(function.get("name") or ""), str(function.get("arguments") or "")))
    content = str(message.get("content") or "")[:MAX_CONTENT]
    said, thinking = split_thinking(content)
    thought_in = next((name for name in THOUGHTS if message.get(name)), "")
    thinking = str(message.get(thought_in) or "")[:MAX_CONTENT] or thinking
    usage = found.get("usage") or {}
    finish = "length" if choice.get("finish_reason") == "length" else "calls" if calls else "stop"
    # strict tools: the grammar begins with a call; one that was cut off stays in the content
    begun = bool(calls) or sampling.call or "tool_call" in content or "<function" in content
    grammar = sampling.schema is not None or (with_tools and begun)
    tokens = _tokens(found, choice, grammar, _mode(sampling, grammar, told))
    return Sampled(
        Message("assistant", said, thinking, tuple(calls), thought_in=thought_in),
        finish,
        tokens,
        str(found.get("model") or name)[:200],
        int(usage.get("prompt_tokens") or (len(tokens.prompt_ids) if tokens else 0)),
        int(usage.get("completion_tokens") or (len(tokens.output_ids) if tokens else 0)),
        seconds,
        grammar=grammar,
    )


def _mode(sampling: Sampling, grammar: bool, told: Told) -> LogprobMode:
    """vLLM masks by the grammar before it takes even raw log-probabilities. Where nothing else comes between, raw and
    processed are the same."""
    if not sampling.is_plain and told != "raw":
        return told or "unknown"
    return "masked" if grammar else "raw"


def _tokens(found: Mapping[str, Any], choice: Mapping[str, Any], grammar: bool, mode: LogprobMode) -> Tokens | None:
    """None unless ids of prompt and output and a log-probability of each are there: half of them trains nothing."""
    prompt = found.get("prompt_token_ids") or choice.get("prompt_token_ids")
    output, logprobs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("content")
    if not prompt or not output or not logprobs or len(output) != len(logprobs):
        return None
    values = tuple(float(one["logprob"]) for one in logprobs)
    # a server does not say which tokens its grammar forced: those that had no choice have probability 1
    forced = tuple(grammar and value == 0.0 for value in values)
    hashed = str(found.get("chat_template_hash") or "server")[:64]
    return Tokens(tuple(map(int, prompt)), tuple(map(int, output)), values, forced, mode, hashed)
