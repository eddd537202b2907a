"""A model behind an OpenAI-compatible server: a hosted provider, or vLLM, which also returns token ids."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from sciagent.agent.messages import Message, PolicyError, Sampled, Sampling
from sciagent.agent.policies.answers import SERVER, GrammarEngine, LogprobSource, read_answer, sampled_of
from sciagent.agent.policies.constrained import LAYOUT
from sciagent.agent.policies.openai_messages import to_openai
from sciagent.agent.policies.rendering import is_rendering
from sciagent.agent.serving import served_cards
from sciagent.agent.serving.served_cards import ServedCard
from sciagent.domain.evidence import content_hash
from sciagent.domain.policies import PolicyIdentity
from sciagent.domain.text import storable, without_secrets
from sciagent.errors import UsageError

MAX_ANSWER_MB = 32  # a token takes about 200 bytes with its log-probability: 160,000 tokens
# options without which a server can be asked as well; the first one that an error names is left out
OPTIONAL = (
    *("top_p", "temperature", "seed", "tool_choice", "strict"),
    *("top_k", "min_p", "repetition_penalty", "cache_salt", "return_token_ids", "logprobs"),
)
TOKEN_OPTIONS = ("return_token_ids", "logprobs")  # each is of no use without the other
SHAPING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")  # they change what tokens are drawn from
_UNSUPPORTED = re.compile(
    r"\b(unsupported|unknown|unrecognized|unexpected|deprecated|extra_forbidden|not (supported|permitted|allowed))\b",
    re.IGNORECASE,
)


class EndpointPolicy:
    """A client for an OpenAI-compatible server. It may be made before a fork, and must be used only after the fork."""

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str | None = None,
        timeout: float = 600.0,
        logprobs: LogprobSource = None,
        answer_mb: int = MAX_ANSWER_MB,
        grammar: GrammarEngine = None,
    ) -> None:
        """model: its name on the server. timeout: seconds for a whole answer. logprobs: distribution of the server's
        log-probabilities, if known. answer_mb: largest size of an answer, in MiB. grammar: what enforces schemas in the
        server, if known."""
        try:
            import httpx2
            import openai

            from sciagent.agent.bounded_http import IDENTITY, bound_body
        except ModuleNotFoundError as error:
            raise UsageError("an endpoint needs an extra: pip install 'sciagent[llm]'") from error

        async def bound(response: httpx2.Response) -> None:
            bound_body(response, answer_mb << 20)

        self.name, self._url = model, base_url
        self._openai, self._logprobs, self._timeout, self._grammar = openai, logprobs, timeout, grammar
        self._strike: Callable[[str], str] = lambda text: without_secrets(text, (api_key,))
        self._refused: dict[str, str] = {}  # what the server said, by request option that it does not support
        hooks: Any = {"response": [bound]}
        try:
            # `Asking` repeats questions itself, with pauses, so the client must not
            self._client = openai.AsyncOpenAI(
                base_url=base_url,
                api_key=api_key or "none",
                timeout=timeout,
                max_retries=0,
                default_headers=IDENTITY,
                http_client=openai.DefaultAsyncHttpxClient(event_hooks=hooks),
            )
        except (httpx2.InvalidURL, ValueError) as error:
            raise UsageError(f"the endpoint {base_url!a} is no address: {error}") from error
        self._starting = threading.Lock()
        self._cards: dict[str, ServedCard | None] = {}  # by the model's name in its answers
        self._is_compared = False
        self._template_checked: bool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        request: dict[str, Any] = {
            "model": self.name,
            "messages": [to_openai(message) for message in messages],
            "temperature": sampling.temperature,
            "top_p": 1.0,
            "max_tokens": sampling.max_tokens,
            "logprobs": True,
            # otherwise vLLM samples with the settings that the model's authors recommend
            "extra_body": {
                "return_token_ids": True,
                "top_k": 0,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                # no keys and values of another policy are used again; vLLM refuses the names themselves, for their @
                "cache_salt": content_hash(self.name),
            },
        }
        if sampling.seed is not None:
            request["seed"] = sampling.seed
        if sampling.schema is not None:
            # the server then allows the same tokens as a model of this process
            layout = {} if self._grammar is None else {"x-guidance": LAYOUT}
            form = {"name": "call", "strict": True, "schema": {**sampling.schema, **layout}}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        elif tools:
            request["tools"] = list(tools)
            if sampling.call:
                request["tool_choice"] = "required"
        began = time.monotonic()
        text, refused = self._answer_text(request)
        if "tool_choice" in refused:
            sampling = replace(sampling, call=False)
        if "strict" in refused:
            sampling = replace(sampling, strict=False)
        try:
            answer = read_answer(text, self._strike)
            took, offered = time.monotonic() - began, "tools" in request
            sampled = sampled_of(answer, sampling, self.name, took, offered, self._logprobs, self._grammar)
        except ValueError as error:
            raise PolicyError(f"{self.name} sent what cannot be read: {error}", retry=True) from error
        return self._with_template(_marked(sampled, refused), messages, tools if offered else ())

    def _with_template(
        self, sampled: Sampled, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> Sampled:
        """Returns the answer with the hash of its chat template, if that is known, and whether the prompt is what the
        template makes of the messages, which is compared for the first answer only."""
        if sampled.tokens is None:
            return sampled
        tokens, card = sampled.tokens, self._card(sampled.policy)
        if card is not None and card.template_sha256 and tokens.template_hash == SERVER:
            tokens = replace(tokens, template_hash=card.template_sha256)
        with self._starting:
            if not self._is_compared:
                self._is_compared = True
                self._template_checked = is_rendering(tokens.prompt_ids, messages, tools, card)
        return replace(sampled, tokens=replace(tokens, template_checked=self._template_checked))

    def _card(self, served: str) -> ServedCard | None:
        """Returns what this machine knows of a served model."""
        if served not in self._cards:
            self._cards[served] = served_cards.find(served)
        return self._cards[served]

    def identity(self, served: str) -> PolicyIdentity:
        card = self._card(served)
        if card is None:
            return PolicyIdentity(served, self._url)
        return PolicyIdentity(served, self._url, card.base_sha256, card.adapter_sha256)

    def _answer_text(self, request: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
        """Returns the body of the answer, and what the server said of each option that it refuses. Such an option is
        left out, and is left out of later requests if that helped. Raises PolicyError."""
        openai, refused = self._openai, dict(self._refused)
        while True:
            adapted = _adapted(request, refused)
            try:
                text = self._wait_for(adapted)
            except TimeoutError as error:
                raise PolicyError(f"{self.name} did not answer within {self._timeout:g} s", retry=True) from error
            except openai.APIStatusError as error:
                status, message = error.status_code, self._strike(_words(error))
                if (option := _refused_option(status, message, _options(adapted), refused)) is None:
                    again = status in (408, 409, 429) or status >= 500
                    raise PolicyError(f"{self.name} answered {status}: {message[:300]}", retry=again) from error
                refused[option] = storable(message)[:300]
            except openai.APIConnectionError as error:
                cause = self._strike(str(error.__cause__ or error))[:300]
                raise PolicyError(f"{self.name} did not answer: {cause}", retry=True) from error
            except (concurrent.futures.CancelledError, RuntimeError, openai.OpenAIError, ValueError) as error:
                message = self._strike(str(error))[:300] or "the campaign stops"
                raise PolicyError(f"{self.name} could not be asked: {message}") from error
            else:
                self._refused |= refused
                return text, refused

    def _wait_for(self, request: Mapping[str, Any]) -> str:
        async def asked() -> str:
            async with asyncio.timeout(self._timeout):
                response = await self._client.chat.completions.with_raw_response.create(**request)
                return str(response.text)

        return asyncio.run_coroutine_threadsafe(asked(), self._running_loop()).result()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Returns the event loop; starts it in its own thread at the first request."""
        with self._starting:
            if self._closed:
                raise RuntimeError("the campaign stops")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True).start()
            return self._loop

    def close(self) -> None:
        """Cancels the open requests and stops the event loop."""
        with self._starting:
            loop, self._loop, self._closed = self._loop, None, True
        if loop is None:
            return
        with contextlib.suppress(concurrent.futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(self._give_up(), loop).result(5.0)
        loop.call_soon_threadsafe(loop.stop)

    async def _give_up(self) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await self._client.close()


def _words(error: Any) -> str:
    """Returns what a server said in an answer with an error status: its message, or else the body of the answer."""
    message = str(error)
    if error.body is None or re.fullmatch(r"Error code: [0-9]+", message.strip()) is None:
        return message
    return f"{message} - {json.dumps(error.body, ensure_ascii=False)[:2000]}"


def _refused_option(status: int, message: str, sent: Set[str], refused: Collection[str]) -> str | None:
    """Returns an option that the server probably refused, and that a request can do without; None if there is none.

    sent: names of the options in the request. refused: options that were refused before.
    """
    if status not in (400, 422):
        return None
    if "max_tokens" not in refused and "max_tokens" in message and _UNSUPPORTED.search(message):
        return "max_tokens"
    for option in OPTIONAL:
        if option in sent and option not in refused and re.search(rf"\b{option}\b", message):
            return "logprobs" if option in TOKEN_OPTIONS else option
    return "logprobs" if "logprobs" not in refused else None


def _marked(sampled: Sampled, refused: Mapping[str, str]) -> Sampled:
    """Returns the answer with the options that the server refused. If one of them shapes what tokens are drawn from, no
    policy gradient may use the tokens."""
    marked = replace(sampled, refused={option: refused[option] for option in sorted(refused)})
    shaping = [option for option in SHAPING if option in refused]
    if marked.tokens is None or not shaping:
        return marked
    why = f"drawn by the server's own {', '.join(shaping)}, which is not known"
    return replace(marked, tokens=replace(marked.tokens, behaviour=None, untrainable=why))


def _options(request: Mapping[str, Any]) -> set[str]:
    """Returns the names of the options in a request."""
    named = {*request, *request.get("extra_body", ())}
    if any("strict" in tool.get("function", ()) for tool in request.get("tools", ())):
        named.add("strict")
    return named


def _adapted(request: Mapping[str, Any], refused: Collection[str]) -> Mapping[str, Any]:
    """Returns the request without the options that the server refused."""
    adapted = {name: value for name, value in request.items() if name not in refused or name == "max_tokens"}
    if "max_tokens" in refused:  # newer OpenAI models use another name for this option
        adapted["max_completion_tokens"] = adapted.pop("max_tokens")
    extra = {name: value for name, value in adapted.pop("extra_body").items() if name not in refused}
    if "logprobs" not in refused:
        adapted["extra_body"] = extra
    if "strict" in refused and "tools" in adapted:
        adapted["tools"] = [_not_strict(tool) for tool in adapted["tools"]]
    return adapted


def _not_strict(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = {name: value for name, value in tool["function"].items() if name != "strict"}
    return {**tool, "function": function}
