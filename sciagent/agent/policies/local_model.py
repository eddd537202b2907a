"""A model that transformers runs in this process. Tokens are drawn here, with their log-probabilities."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sciagent.agent import install_and_find_models
from sciagent.agent.install_and_find_models import check_extra
from sciagent.agent.messages_sampling_and_policy_client import (
    NO_CHANCE,
    EpisodeQuestion,
    Message,
    PolicyError,
    Sampled,
    Sampling,
    Tokens,
)
from sciagent.agent.policies import chat_templates
from sciagent.agent.policies.batch_decoding import BatchDecoder, WantedAnswer, batches, can_batch, limits_of
from sciagent.agent.policies.chat_templates import extended_ids, prompt_ids
from sciagent.agent.policies.decoding_and_key_value_cache import Decoder, Drawn
from sciagent.agent.policies.schema_tokens import ConstrainedAnswer
from sciagent.domain.policy_identity import IN_PROCESS, PolicyIdentity
from sciagent.errors import UsageError


class InMemoryPolicy:
    """A model of transformers in this process.

    `sample` answers one question at a time; other threads wait. It keeps the keys and values of the last prompt and
    answer, so that the next turn of the same episode computes only the new tokens. `sample_many` answers many at once.
    """

    def __init__(self, model: Any, tokenizer: Any, identity: PolicyIdentity, *, threads: int = 1) -> None:
        """threads: number of PyTorch threads that the process has. Raises UsageError without a chat template."""
        if not tokenizer.chat_template:
            raise UsageError(f"{identity.name} has no chat template")
        self.name = identity.name
        self._identity = identity
        # with one PyTorch thread, the calling thread does all the arithmetic, so its own clock counts no other thread
        self._clock = time.thread_time if threads == 1 else time.process_time
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.tokenizer = tokenizer
        self.model = model
        self.template_hash = install_and_find_models.sha256(str(tokenizer.chat_template))
        self.context = int(model.config.max_position_embeddings)
        model_ends = model.generation_config.eos_token_id  # one id, a list of ids, or None
        ends = set(model_ends) if isinstance(model_ends, list) else {model_ends}
        ends.add(tokenizer.eos_token_id)
        self._ends = frozenset(ends - {None})
        self.decoder: Decoder | None = Decoder(self.model, self._ends, self._go_on)
        self._batches: BatchDecoder | None = None
        self._grammar_tokenizer: Any = None  # made at the first schema

    def forget(self) -> None:
        """Drops the keys and values of earlier prompts, so that answers depend on nothing that was asked before."""
        with self._lock:
            self._batches = None
            self.decoder = Decoder(self.model, self._ends, self._go_on)

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        """Samples the next message, as in `PolicyClient`. Without a schema, thinking and Hermes calls are parsed from
        the text; with a schema, the content is the JSON text."""
        begun = time.monotonic()
        with self._lock:
            self._go_on()
            decoder = self.decoder
            assert decoder is not None  # only close() sets it to None
            clock_at_start = self._clock()
            wanted = self._wanted(self.prompt_ids(messages, tools), sampling)
            drawn = decoder.draw(wanted.prompt, wanted.limit, sampling, wanted.answer)
            core_seconds = self._clock() - clock_at_start
        return self._sampled(messages, wanted, drawn, time.monotonic() - begun, core_seconds)

    def sample_many(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        """Samples the next message of each question, many at once. An error of a question does not affect the others.

        With a seed, an answer has the tokens that `sample` would draw for the same prompt; the log-probabilities differ
        in the last digits, since the sums are taken in another order. A prompt begins with the `held` ids of its
        question if the conversation still begins with their text.
        """
        answers: dict[int, Sampled | PolicyError] = {}
        drawn: dict[int, tuple[WantedAnswer, Drawn, float]] = {}
        with self._lock:
            clock_at_start = self._clock()
            wanted: dict[int, WantedAnswer] = {}
            for place, question in enumerate(questions):
                self._go_on()
                try:
                    ids = extended_ids(self.tokenizer, question.messages, question.tools, question.held)
                    wanted[place] = self._wanted(ids, question.sampling)
                except PolicyError as error:
                    answers[place] = error
            places = iter(wanted)  # the batches have the wanted answers in order
            for batch in batches(list(wanted.values()), limits_of(self.model)):
                begun = time.monotonic()
                results = self._draw_batch(batch)
                took = time.monotonic() - begun
                for each, result in zip(batch, results, strict=True):
                    place = next(places)
                    if isinstance(result, PolicyError):
                        answers[place] = result
                    else:
                        drawn[place] = each, result, took
            core_seconds = self._clock() - clock_at_start
        n_tokens = {place: len(each.prompt) + len(answer.ids) for place, (each, answer, _) in drawn.items()}
        total = sum(n_tokens.values())
        for place, (each, answer, took) in drawn.items():
            share = n_tokens[place] / total  # of the processor time
            answers[place] = self._sampled(questions[place].messages, each, answer, took, core_seconds * share)
        return [answers[place] for place in range(len(questions))]

    def _draw_batch(self, batch: Sequence[WantedAnswer]) -> list[Drawn | PolicyError]:
        """Draws the answers of a batch together, or one by one if the model allows no batches."""
        decoder = self.decoder
        assert decoder is not None  # only close() sets it to None
        if can_batch(self.model.config):
            self._batches = self._batches or BatchDecoder(self.model, self._ends, self._go_on)
            return self._batches.draw(batch)
        results: list[Drawn | PolicyError] = []
        for each in batch:
            self._go_on()
            try:
                results.append(decoder.draw(each.prompt, each.limit, each.sampling, each.answer))
            except PolicyError as error:
                results.append(error)
        return results

    def _wanted(self, prompt: list[int], sampling: Sampling) -> WantedAnswer:
        """Returns the answer that is wanted. Raises PolicyError for a prompt that is too long, or a wrong schema."""
        room = self.context - len(prompt)
        if room < 1:
            raise PolicyError(f"the prompt has {len(prompt)} tokens; the context of {self.name} is {self.context}")
        answer = None if sampling.schema is None else self.constrained(sampling.schema)
        return WantedAnswer(prompt, min(room, sampling.max_tokens), sampling, answer)

    def _sampled(
        self, messages: Sequence[Message], wanted: WantedAnswer, drawn: Drawn, seconds: float, core_seconds: float
    ) -> Sampled:
        """Returns a drawn answer as a message with its tokens."""
        ids = drawn.ids
        has_end = ids[-1] in self._ends
        text_ids = ids[:-1] if has_end else ids
        text = self.tokenizer.decode(text_ids, clean_up_tokenization_spaces=False)
        if wanted.answer:
            message = Message("assistant", text)
        else:
            n_earlier_calls = sum(len(earlier.calls) for earlier in messages)
            message = chat_templates.parsed(text, first_call=n_earlier_calls + 1)
        finish = "length"
        if has_end:
            finish = "calls" if message.calls else "stop"
        return Sampled(
            message=message,
            finish=finish,
            tokens=Tokens(
                prompt_ids=tuple(wanted.prompt),
                output_ids=tuple(ids),
                logprobs=tuple(drawn.logprobs),
                forced=tuple(drawn.forced),
                mode="raw",
                template_hash=self.template_hash,
                behaviour=tuple(drawn.behaviour),
                untrainable="" if wanted.sampling.temperature > 0 else NO_CHANCE,
            ),
            policy=self.name,
            prompt_tokens=len(wanted.prompt),
            output_tokens=len(ids),
            seconds=seconds,
            core_seconds=core_seconds,
            grammar=wanted.answer is not None,
        )

    def constrained(self, schema: Mapping[str, Any]) -> ConstrainedAnswer:
        """Returns the grammar of a new answer. Raises PolicyError if the schema cannot be enforced."""
        from llguidance.hf import from_tokenizer

        if self._grammar_tokenizer is None:
            n_logits = self.model.config.vocab_size
            self._grammar_tokenizer = from_tokenizer(self.tokenizer, n_vocab=n_logits, eos_token=sorted(self._ends))
        return ConstrainedAnswer(self._grammar_tokenizer, schema)

    def identity(self, served: str) -> PolicyIdentity:
        return self._identity

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """Returns the token ids of a conversation, up to the beginning of the answer."""
        return prompt_ids(self.tokenizer, messages, tools)

    def close(self) -> None:
        """Ends the current answer and frees the memory. Open `sample` calls raise PolicyError."""
        self._closed.set()
        with self._lock:
            self.model = None
            self.decoder = None
            self._batches = None
            self._grammar_tokenizer = None

    def _go_on(self) -> None:
        """Raises PolicyError if the policy was closed."""
        if self._closed.is_set():
            raise PolicyError(f"{self.name} was closed")


class LocalPolicy(InMemoryPolicy):
    """A model of `sciagent models`, in single precision on a CPU, in bfloat16 on a GPU."""

    def __init__(self, model: str, *, device: str | None = None, threads: int = 1) -> None:
        """threads: number of PyTorch threads, for the whole process."""
        check_extra()
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        card = install_and_find_models.find(model)
        default_device = "cuda" if torch.cuda.is_available() else "cpu"
        where = device or default_device
        torch.set_num_threads(threads)
        tokenizer = AutoTokenizer.from_pretrained(card.folder, local_files_only=True)
        dtype = torch.bfloat16 if where.startswith("cuda") else torch.float32
        loaded = AutoModelForCausalLM.from_pretrained(
            card.folder, dtype=dtype, local_files_only=True, use_safetensors=True
        )
        identity = PolicyIdentity(card.policy, IN_PROCESS, card.sha256)
        super().__init__(loaded.to(where).eval(), tokenizer, identity, threads=threads)
