"""A model behind an OpenAI-compatible server: a hosted provider, or vLLM, which also returns token ids.

Every field of an answer is checked: it may be missing, of another type, or hold characters that a database cannot
store.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import math
import re
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from sciagent.agent.messages_sampling_and_policy_client import (
    NO_CHANCE,
    LogprobMode,
    Message,
    PolicyError,
    Sampled,
    Sampling,
    Tokens,
    ToolCall,
    split_thinking,
    to_openai,
)
from sciagent.agent.policies.chat_templates import is_rendering
from sciagent.agent.policies.schema_tokens import LAYOUT
from sciagent.agent.serving.load_adapters_and_served_model_cards import ServedCard, served_card
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.domain.safe_text_and_durations import storable, without_secrets
from sciagent.errors import UsageError

MAX_CONTENT = 200_000  # characters of a text; the rest is cut
MAX_CALLS = 64
MAX_COUNT = 10**9  # largest token count that is accepted from a server
THOUGHTS = ("reasoning", "reasoning_content")  # fields in which servers put the thinking, if not into the content

LogprobSource = Literal["raw", "processed"] | None
"""The distribution of a server's log-probabilities; None if unknown."""

GrammarEngine = Literal["llguidance"] | None
"""The library that enforces schemas in a server. Only llguidance is named, since this process uses it, too: it can
compute again which tokens the server allowed. None: another library, or unknown."""

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
        if isinstance(value, list):
            return [clean(entry) for entry in value]
        return value

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
    source: distribution of the server's log-probabilities. engine: what enforced a schema. Raises ValueError if the
    answer has no message or malformed calls."""
    choices = answer.get("choices")
    choice = _json_object(choices[0], "choices") if isinstance(choices, list) and choices else {}
    if not isinstance(choice.get("message"), dict):
        raise ValueError(f"no message in it: {json.dumps(answer)[:300]}")
    message = _message(choice["message"])
    finish = "calls" if message.calls else "stop"
    if choice.get("finish_reason") == "length":
        finish = "length"
    content = _text(choice["message"].get("content"))
    grammar = sampling.schema is not None or (with_tools and _restricts_calls(sampling, message.calls, content))
    mode = _mode(sampling, grammar, source)
    # this process has the same engine, so that it can compute from the schema which tokens were allowed
    is_grammar_known = engine is not None and sampling.schema is not None
    tokens = _tokens(answer, choice, grammar, sampling, mode, is_grammar_known)
    usage = answer["usage"] if isinstance(answer.get("usage"), dict) else {}
    prompt_tokens = _token_count(usage.get("prompt_tokens"))
    output_tokens = _token_count(usage.get("completion_tokens"))
    if tokens is not None:  # for a server that states no counts
        prompt_tokens = prompt_tokens or len(tokens.prompt_ids)
        output_tokens = output_tokens or len(tokens.output_ids)
    policy = (_text(answer.get("model")) or name)[:200]
    return Sampled(
        message,
        finish,
        tokens,
        policy,
        prompt_tokens,
        output_tokens,
        seconds,
        cached_tokens=_detail_count(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=_detail_count(usage, "completion_tokens_details", "reasoning_tokens"),
        grammar=grammar,
    )


def _message(given: Mapping[str, Any]) -> Message:
    """Returns the model's message with its thinking and calls. given: the message of an answer. Raises ValueError if
    the calls are malformed."""
    visible, thinking = split_thinking(_text(given.get("content")))
    thought_in = ""
    for field in THOUGHTS:
        if _text(given.get(field)):
            thought_in = field
            thinking = _text(given[field])
            break
    return Message("assistant", visible, thinking, _calls(given.get("tool_calls")), thought_in=thought_in)


def _restricts_calls(sampling: Sampling, calls: tuple[ToolCall, ...], content: str) -> bool:
    """Returns whether a grammar restricted an answer for which tools were offered. The grammar of strict tools begins
    with a call; the text of an incomplete call stays in the content."""
    has_begun_call = bool(calls) or "tool_call" in content or "<function" in content
    return sampling.call or (sampling.strict and has_begun_call)


def _calls(given: object) -> tuple[ToolCall, ...]:
    """Returns the calls of an answer. Raises ValueError if they are not a list of calls."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise ValueError("its tool_calls are no list; send a list of calls, or none")
    calls = []
    for place, entry in enumerate(given[:MAX_CALLS]):
        call = _json_object(entry, "tool_calls")
        function = _json_object(call.get("function") or {}, "tool_calls.function")
        arguments = function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        call_id = _text(call.get("id"))[:200] or f"call-{place}"
        calls.append(ToolCall(call_id, _text(function.get("name")), arguments))
    return tuple(calls)


def _mode(sampling: Sampling, grammar: bool, source: LogprobSource) -> LogprobMode:
    """Returns the distribution of the log-probabilities. source: what is known of the server.

    At temperature 1 it is `raw`, whatever the source, since raw and processed log-probabilities do not differ there. At
    another temperature it is the source, or `unknown` without one. With a grammar, `raw` becomes `masked`: vLLM applies
    the grammar before it computes even raw log-probabilities.
    """
    if sampling.temperature != 1 and source != "raw":
        return source or "unknown"
    return "masked" if grammar else "raw"


def _untrainable(sampling: Sampling, grammar: bool, mode: LogprobMode, is_grammar_known: bool) -> str:
    """Returns why no policy gradient may use the tokens; empty if one may. is_grammar_known: whether the tokens that
    a grammar allowed can be found again."""
    if sampling.temperature <= 0:
        return NO_CHANCE
    if not _is_behaviour(sampling, mode):
        return f"drawn at temperature {sampling.temperature:g}, with log-probabilities that are {mode}: see `logprobs`"
    return GRAMMAR if grammar and not is_grammar_known else ""


def _is_behaviour(sampling: Sampling, mode: LogprobMode) -> bool:
    """Returns whether the log-probabilities are those of the distribution that the tokens were drawn from."""
    return mode == "processed" or (sampling.temperature == 1 and mode in ("raw", "masked"))


def _tokens(
    answer: Mapping[str, Any],
    choice: Mapping[str, Any],
    grammar: bool,
    sampling: Sampling,
    mode: LogprobMode,
    is_grammar_known: bool,
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
    why = _untrainable(sampling, grammar, mode, is_grammar_known)
    return Tokens(
        prompt_ids=tuple(prompt),
        output_ids=tuple(output),
        logprobs=logprobs,
        forced=forced,
        mode=mode,
        template_hash=template,
        behaviour=behaviour,
        untrainable=why,
    )


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
    """Returns whether the value is a list of token ids that is not empty."""
    if not isinstance(value, list) or not value:
        return False
    return all(type(id_) is int and 0 <= id_ < 1 << 31 for id_ in value)


def _json_object(value: object, where: str) -> Mapping[str, Any]:
    """Returns the value if it is a JSON object. where: its place in the answer. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"an entry of its {where} is no JSON object")
    return value


def _text(value: object) -> str:
    """Returns at most MAX_CONTENT characters of a text; an empty text for any other value."""
    return value[:MAX_CONTENT] if isinstance(value, str) else ""


def _token_count(value: object) -> int:
    """Returns the number of tokens that a server states; 0 for a value that is no such number."""
    return value if type(value) is int and 0 <= value <= MAX_COUNT else 0


def _detail_count(usage: Mapping[str, Any], group: str, name: str) -> int | None:
    """Returns a number of tokens from the details of a usage; None if the server states none."""
    details = usage.get(group)
    if not isinstance(details, dict) or type(details.get(name)) is not int:
        return None
    return _token_count(details[name])


CLOSING_SECONDS = 5.0  # longest wait for open requests to end
MAX_ANSWER_MB = 32  # a token takes about 200 bytes with its log-probability: 160,000 tokens
# options without which a server can be asked as well; the first one that an error names is left out, and no other
OPTIONAL = (
    "top_p",
    "temperature",
    "seed",
    "tool_choice",
    "strict",
    "top_k",
    "min_p",
    "repetition_penalty",
    "cache_salt",
    "return_token_ids",
    "logprobs",
)
LIMITING = (429, 503)  # statuses of a server that asks for a wait
TOKEN_OPTIONS = ("return_token_ids", "logprobs")  # each is of no use without the other
SHAPING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")  # they change what tokens are drawn from
_LOG_PROBABILITIES = re.compile(r"\blog[ -]?prob(s|abilit(y|ies))\b", re.IGNORECASE)
_UNSUPPORTED = re.compile(
    r"\b(unsupported(_parameter)?|unknown|unrecognized|unexpected|deprecated|extra_forbidden"
    r"|not (supported|permitted|allowed))\b",
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

            from sciagent.agent.http_answer_limit import IDENTITY, bound_body
        except ModuleNotFoundError as error:
            raise UsageError("an endpoint needs an extra: pip install 'sciagent[llm]'") from error

        async def bound(response: httpx2.Response) -> None:
            bound_body(response, answer_mb << 20)

        self.name = model
        self._url = base_url
        self._openai = openai
        self._logprobs = logprobs
        self._timeout = timeout
        self._grammar = grammar
        self._strike: Callable[[str], str] = lambda text: without_secrets(text, (api_key,))
        self._refused: dict[str, str] = {}  # by unsupported request option: what the server said of it
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
        self._lock = threading.Lock()
        self._cards: dict[str, ServedCard | None] = {}  # by the model's name in its answers
        self._is_compared = False  # whether `_template_checked` has its value
        self._template_checked: bool | None = None  # as `Tokens.template_checked`, for all answers
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
            took = time.monotonic() - began
            offered = "tools" in request
            sampled = sampled_of(answer, sampling, self.name, took, offered, self._logprobs, self._grammar)
        except ValueError as error:
            raise PolicyError(f"{self.name} sent what cannot be read: {error}", retry=True) from error
        tools_in_prompt = tools if offered else ()
        return self._with_template(_marked(sampled, refused), messages, tools_in_prompt)

    def _with_template(
        self, sampled: Sampled, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> Sampled:
        """Returns the answer with two facts on its prompt: the hash of the chat template, if it is known, and whether
        the prompt is what the template makes of the messages. The prompt is compared for the first answer only."""
        if sampled.tokens is None:
            return sampled
        tokens = sampled.tokens
        card = self._card(sampled.policy)
        if card is not None and card.template_sha256 and tokens.template_hash == SERVER:
            tokens = replace(tokens, template_hash=card.template_sha256)
        with self._lock:
            if not self._is_compared:
                self._is_compared = True
                self._template_checked = is_rendering(tokens.prompt_ids, messages, tools, card)
        return replace(sampled, tokens=replace(tokens, template_checked=self._template_checked))

    def _card(self, served: str) -> ServedCard | None:
        """Returns what this machine knows of a served model."""
        if served not in self._cards:
            self._cards[served] = served_card(served)
        return self._cards[served]

    def identity(self, served: str) -> PolicyIdentity:
        card = self._card(served)
        if card is None:
            return PolicyIdentity(served, self._url)
        return PolicyIdentity(served, self._url, card.base_sha256, card.adapter_sha256)

    def _answer_text(self, request: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
        """Returns the body of the answer, and what the server said of each option that it refuses. Such an option is
        left out, and is left out of later requests if that helped. Raises PolicyError."""
        openai = self._openai
        refused = dict(self._refused)
        while True:
            adapted = _adapted(request, refused)
            try:
                text = self._wait_for(adapted)
            except TimeoutError as error:
                raise PolicyError(f"{self.name} did not answer within {self._timeout:g} s", retry=True) from error
            except openai.APIStatusError as error:
                status = error.status_code
                message = self._strike(_words(error))
                parameters = _parameters(error.body)
                option = _refused_option(status, message, parameters, _options(adapted), refused)
                if option is None:
                    fault = f"{self.name} answered {status}: {message[:300]}"
                    raise _status_fault(fault, status, error) from error
                refused[option] = storable(message)[:300]
            except openai.APIConnectionError as error:
                cause = self._strike(str(error.__cause__ or error))[:300]
                raise PolicyError(f"{self.name} did not answer: {cause}", retry=True) from error
            except (concurrent.futures.CancelledError, RuntimeError, openai.OpenAIError, ValueError) as error:
                # a request that `close` cancels raises an error without a text
                message = self._strike(str(error))[:300] or "the campaign stops"
                raise PolicyError(f"{self.name} could not be asked: {message}") from error
            else:
                self._refused |= refused
                return text, refused

    def _wait_for(self, request: Mapping[str, Any]) -> str:
        """Sends a request, and returns the body of the answer."""

        async def answer_text() -> str:
            async with asyncio.timeout(self._timeout):
                response = await self._client.chat.completions.with_raw_response.create(**request)
                return str(response.text)

        return self._submit(answer_text()).result()

    def _submit(self, coroutine: Coroutine[Any, Any, str]) -> concurrent.futures.Future[str]:
        """Starts a coroutine in the event loop, whose thread is started at the first request.

        This is done under the lock, so that `close` cancels each coroutine that was started.
        """
        with self._lock:
            if self._closed:
                coroutine.close()
                raise RuntimeError("the campaign stops")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run_until_stopped, args=[self._loop], name="endpoint", daemon=True).start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Cancels the open requests and stops the event loop."""
        with self._lock:
            loop = self._loop
            self._loop = None
            self._closed = True
        if loop is None:
            return
        with contextlib.suppress(concurrent.futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(self._cancel_requests(), loop).result(CLOSING_SECONDS)
        loop.call_soon_threadsafe(loop.stop)

    async def _cancel_requests(self) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await self._client.close()


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _words(error: Any) -> str:
    """Returns what a server said in an answer with an error status: its message, or its body if the message says only
    the status."""
    message = str(error)
    says_only_status = re.fullmatch(r"Error code: [0-9]+", message.strip()) is not None
    if error.body is None or not says_only_status:
        return message
    return f"{message} - {json.dumps(error.body, ensure_ascii=False)[:2000]}"


def _status_fault(fault: str, status: int, error: Any) -> PolicyError:
    """Returns the error for an answer with an error status. fault: its words."""
    # a used-up account answers 429 as well, but no wait helps
    is_unpaid = "insufficient_quota" in (error.code, error.type)
    may_pass = (status in (408, 409, 429) or status >= 500) and not is_unpaid
    is_limit = status in LIMITING and may_pass
    after = _wait_of(error.response.headers, datetime.now(UTC)) if is_limit else None
    return PolicyError(fault, retry=may_pass, is_limit=is_limit, after=after)


def _wait_of(headers: Mapping[str, str], now: datetime) -> float | None:
    """Returns the seconds that a server asks to wait: by `retry-after-ms`, or by `Retry-After` in seconds or as a date;
    None if it states no such time."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        with contextlib.suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit
            if math.isfinite(seconds) and seconds >= 0:
                return seconds
    with contextlib.suppress(ValueError, OverflowError):
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return max((date - now).total_seconds(), 0.0)
    return None


def _refused_option(
    status: int, message: str, parameters: Sequence[str], sent: Set[str], refused: Collection[str]
) -> str | None:
    """Returns the option that the server refused by name, and that a request can do without; None if there is none.

    parameters: names that the error gives to the parameter at fault; where there are any, the message is not searched.
    sent: names of the options in the request. refused: options that were refused before.
    """
    if status not in (400, 422):
        return None

    def is_named(option: str) -> bool:
        if parameters:
            return option in parameters
        if option == "logprobs" and _LOG_PROBABILITIES.search(message):
            return True
        return re.search(rf"\b{option}\b", message) is not None

    # other errors name max_tokens, too, such as the error for a prompt that is too long
    if "max_tokens" not in refused and is_named("max_tokens") and _UNSUPPORTED.search(message):
        return "max_tokens"
    for option in OPTIONAL:
        if option in sent and option not in refused and is_named(option):
            return "logprobs" if option in TOKEN_OPTIONS else option
    return None


def _parameters(body: object) -> list[str]:
    """Returns the names that the body of an error gives to the parameter at fault: the parts of OpenAI's `param`, such
    as `tools[0].function.strict`, or of the first `loc` of FastAPI. Empty if it gives none."""
    if not isinstance(body, dict):
        return []
    # the client of OpenAI hands over what is below `error`
    error = body["error"] if isinstance(body.get("error"), dict) else body
    parameter = error.get("param")
    if isinstance(parameter, str) and parameter.strip():
        return re.findall(r"\w+", parameter[:500])
    details = error.get("detail")
    first = details[0] if isinstance(details, list) and details else None
    places = first.get("loc") if isinstance(first, dict) else None
    if not isinstance(places, list):
        return []
    return [place for place in places if isinstance(place, str) and place != "body"]


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
    # max_tokens gets another name instead, which newer OpenAI models use
    adapted = {name: value for name, value in request.items() if name not in refused or name == "max_tokens"}
    if "max_tokens" in refused:
        adapted["max_completion_tokens"] = adapted.pop("max_tokens")
    extra = {name: value for name, value in adapted.pop("extra_body").items() if name not in refused}
    if "logprobs" not in refused:  # a server without log-probabilities may know none of these options
        adapted["extra_body"] = extra
    if "strict" in refused and "tools" in adapted:
        adapted["tools"] = [_not_strict(tool) for tool in adapted["tools"]]
    return adapted


def _not_strict(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = {name: value for name, value in tool["function"].items() if name != "strict"}
    return {**tool, "function": function}
