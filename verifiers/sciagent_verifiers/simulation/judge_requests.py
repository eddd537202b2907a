"""Requests to a language model for votes, and their results.

Each vote is a separate request with its own seed and its own order of the criteria, since models favour what comes
first. A request is repeated, after a pause, if the server does not answer, but not if the answer is unreadable.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from sciagent.agent.messages import Message, PolicyClient, PolicyError, Sampled, Sampling
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.errors import SciagentError, SimulatorError
from sciagent_verifiers.simulation.judge_votes import BadVoteError, Vote, messages, read_vote, schema
from sciagent_verifiers.simulation.rubric import Rubric

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)  # seconds before a server is asked again
AT_ONCE = 8  # largest number of concurrent requests to a server
PER_TOKEN = 3.5  # characters per token, roughly


@dataclass(frozen=True)
class Ballot:
    """The result of one request."""

    seed: int
    order: tuple[str, ...]
    """Names of the criteria in the order that the model was shown."""
    vote: Vote | None
    fault: str = ""
    """Why there is no vote; empty if there is one."""
    reason: Reason | None = None
    """The reason, if the model or the server failed; None if only the answer is invalid."""
    tokens: int = 0
    """Tokens of prompt and answer as reported by the server; estimated if it reports none."""


@lru_cache(maxsize=1)
def local(model: str) -> PolicyClient:
    """Returns a model of `sciagent models`, on the CPU, since a GPU cannot be used after the fork for each job."""
    from sciagent.agent.policies.local import LocalPolicy

    return LocalPolicy(model, device="cpu", threads=1)


@lru_cache(maxsize=4)
def served(model: str, endpoint: str, api_key_env: str | None, timeout: float) -> PolicyClient:
    """Returns a model behind a server. The key is read from this process's environment and is stored nowhere else."""
    from sciagent.agent.policies.endpoint import EndpointPolicy

    key = os.environ.get(api_key_env) if api_key_env else None
    policy = EndpointPolicy(model, endpoint, key, timeout)
    # The client imports and builds these at its first request, in most of a second. Here it happens before the fork.
    from openai.resources.chat.completions import completions  # noqa: F401
    from openai.types.chat import ChatCompletion

    ChatCompletion.model_rebuild()
    return policy


@contextmanager
def available() -> Iterator[None]:
    """Raises SimulatorError bad_environment (model_unreachable) where the model is not available on this machine."""
    try:
        yield
    except (SciagentError, OSError) as error:
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.MODEL_UNREACHABLE, str(error)) from error


def ask(
    policy: PolicyClient,
    rubric: Rubric,
    description: str,
    numbers: Sequence[int],
    sampling: Sampling,
    version: str,
    structured: bool,
    at_once: int,
) -> list[Ballot]:
    """Returns a ballot for each seed, in order. numbers: the seeds. version: the model that must answer."""

    def ask(seed: int) -> Ballot:
        order = list(rubric.criteria)
        random.Random(seed).shuffle(order)
        ballot = partial(Ballot, seed, tuple(criterion.name for criterion in order), None)
        question = messages(rubric, order, description)
        chosen = replace(sampling, seed=seed, schema=schema(order) if structured else None)
        try:
            sampled = _sampled(policy, question, chosen)
        except PolicyError as error:
            return ballot(str(error), Reason.MODEL_UNREACHABLE)
        written = sum(len(message.content) for message in (*question, sampled.message))  # characters
        tokens = sampled.prompt_tokens + sampled.output_tokens or round(written / PER_TOKEN)
        if sampled.policy != version:
            fault = f'"{sampled.policy}" answered, not "{version}"; if it is the model that is meant, set version to it'
            return ballot(fault, Reason.MODEL_CHANGED, tokens)
        if sampled.finish == "length":
            return ballot(f"cut off after {sampled.output_tokens} tokens", tokens=tokens)
        try:
            return replace(ballot(tokens=tokens), vote=read_vote(sampled.message.content, rubric))
        except BadVoteError as error:
            return ballot(str(error), tokens=tokens)

    with ThreadPoolExecutor(min(at_once, len(numbers))) as threads:
        return list(threads.map(ask, numbers))


def _sampled(policy: PolicyClient, question: Sequence[Message], sampling: Sampling) -> Sampled:
    """Returns the answer; repeats the request after errors that may pass. Raises PolicyError."""
    for pause in PAUSES:
        try:
            return policy.sample(question, (), sampling)
        except PolicyError as error:
            if not error.retry:
                raise
            time.sleep(pause)
    return policy.sample(question, (), sampling)
