"""Draws tokens one by one from a causal model, and keeps the keys and values of its sequences. A JSON schema may
restrict the tokens.

A batch has room for all its tokens: a new token is written in place, and nothing is copied.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from sciagent.agent.messages_sampling_and_policy_client import PolicyError, Sampling, shared_prefix
from sciagent.agent.policies.schema_tokens import ConstrainedAnswer, all_allowed, allow_next, unpacked

CHUNK = 512  # prompt tokens computed at once; `go_on` is called between chunks


class Drawn(NamedTuple):
    """n tokens that were drawn."""

    ids: list[int]
    logprobs: list[float]
    """(n,) natural log-probabilities in the model's own distribution, before temperature and grammar."""
    behaviour: list[float]
    """(n,) natural log-probabilities in the distribution that the tokens were drawn from."""
    forced: list[bool]
    """(n,) whether the grammar allowed only this token."""


class AnswerDraw:
    """The draw of one answer, token by token, with random numbers of its own."""

    def __init__(
        self, sampling: Sampling, limit: int, ends: frozenset[int], answer: ConstrainedAnswer | None, device: Any
    ) -> None:
        """limit: most tokens. ends: ids of end tokens. answer: the grammar; None without one."""
        self.drawn = Drawn([], [], [], [])
        self.temperature = sampling.temperature
        self._limit = limit
        self._ends = ends
        self.answer = answer
        self._random = torch.Generator(device=device)
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed)

    def take(self, logits: Any) -> bool:
        """Draws the next token; returns whether the answer goes on after it. logits: (v,). Raises PolicyError."""
        [result] = take_all([self], logits[None])
        if isinstance(result, PolicyError):
            raise result
        return result

    def add_noise(self, row: Any) -> None:
        """Fills a row, (v,), with exponential random numbers of this answer. The drawn token is the one with the
        largest quotient of its probability and its number, as in `torch.multinomial`."""
        row.exponential_(generator=self._random)

    def add(self, token: int, logprob: float, chance: float, is_forced: bool) -> bool:
        """Adds a drawn token; returns whether the answer goes on after it. chance: its probability in the distribution
        that it was drawn from. Raises PolicyError."""
        self.drawn.ids.append(token)
        self.drawn.logprobs.append(logprob)
        self.drawn.behaviour.append(math.log(chance))
        self.drawn.forced.append(is_forced)
        if token in self._ends or len(self.drawn.ids) >= self._limit:
            return False
        if self.answer:
            self.answer.take(token)
        return True


def take_all(draws: Sequence[AnswerDraw], logits: Any) -> list[bool | PolicyError]:
    """Draws the next token of n answers. Returns for each answer whether it goes on after the token, or its error.

    On a GPU the process waits once for all answers. logits: (n, v).
    """
    results: list[bool | PolicyError] = [False] * len(draws)
    allowed, errors = _allowed(draws, logits)
    for place, error in errors.items():
        results[place] = error
    temperatures = logits.new_tensor([draw.temperature for draw in draws])[:, None]
    probabilities = chances(logits, allowed, temperatures)
    noise = torch.empty_like(probabilities)
    for draw, row in zip(draws, noise, strict=True):
        draw.add_noise(row)
    tokens = (probabilities / noise).argmax(dim=-1, keepdim=True)
    logprobs = torch.log_softmax(logits, dim=-1).gather(-1, tokens)
    forced = torch.zeros_like(tokens) if allowed is None else allowed.sum(dim=-1, keepdim=True) == 1
    drawn_chances = probabilities.gather(-1, tokens)
    # one tensor, so that a GPU is waited for once
    drawn_rows = torch.cat([tokens, logprobs.double(), drawn_chances.double(), forced], dim=1).tolist()
    for place, draw in enumerate(draws):
        if place in errors:
            continue
        token, logprob, chance, is_forced = drawn_rows[place]
        if not chance > 0:
            raise RuntimeError("the model gives no finite probabilities")
        try:
            results[place] = draw.add(int(token), logprob, chance, bool(is_forced))
        except PolicyError as error:
            results[place] = error
    return results


def _allowed(draws: Sequence[AnswerDraw], logits: Any) -> tuple[Any | None, Mapping[int, PolicyError]]:
    """Returns (n, v) booleans, the tokens that may come next, on the device of the logits; None if no answer has a
    grammar. Also returns the errors of grammars, by the position of the answer."""
    answers = {place: draw.answer for place, draw in enumerate(draws) if draw.answer is not None}
    if not answers:
        return None, {}
    bits = all_allowed(len(draws), logits.shape[-1])
    errors = allow_next(answers, bits)
    return unpacked(torch.from_numpy(bits).to(logits.device), logits.shape[-1]), errors


class Decoder:
    """A model, and the keys and values of its last sequence. Not thread-safe."""

    def __init__(self, model: Any, ends: frozenset[int], go_on: Callable[[], None]) -> None:
        """ends: ids of end tokens. go_on: called before each computation; it raises an error to stop."""
        self.model = model
        self.ends = ends
        self.go_on = go_on
        self.reused = 0  # number of tokens of the last prompt that were taken from the cache
        self._cache: Any = None
        self._seen: list[int] = []  # the token ids whose keys and values are in the cache

    def draw(self, prompt: list[int], limit: int, sampling: Sampling, answer: ConstrainedAnswer | None) -> Drawn:
        """Draws at most `limit` tokens after the prompt. The last one is an end token, unless the limit is reached."""
        answer_draw = AnswerDraw(sampling, limit, self.ends, answer, self.model.device)
        with torch.inference_mode():
            logits = self._after_prompt(prompt)
            while answer_draw.take(logits):
                self.go_on()
                logits = self._forward([answer_draw.drawn.ids[-1]])
        return answer_draw.drawn

    def _after_prompt(self, prompt: list[int]) -> Any:
        """Returns the (v,) logits after the prompt. Tokens shared with the last sequence are not computed again."""
        # the last token is always computed, since its logits were not kept
        self.reused = shared_prefix(self._seen, prompt[:-1])
        layers = [] if self._cache is None else self._cache.layers
        is_sliding = any(getattr(layer, "is_sliding", False) for layer in layers)
        if self.reused and not is_sliding:
            n_surplus = len(self._seen) - self.reused
            if n_surplus:
                self._cache.crop(-n_surplus)  # a negative number crops from the end
        else:  # a sliding window has dropped the entries that a crop would need
            self.reused = 0
            self._cache = DynamicCache(config=self.model.config)
        self._seen = prompt[: self.reused]
        logits = None
        for begin in range(self.reused, len(prompt), CHUNK):
            self.go_on()
            logits = self._forward(prompt[begin : begin + CHUNK])
        return logits

    def _forward(self, ids: list[int]) -> Any:
        """Returns the (v,) logits after these tokens, in single precision."""
        seen = self._seen
        self._seen = []  # an error in the next call leaves the cache in an unknown state
        out = self.model(
            input_ids=torch.tensor([ids], device=self.model.device),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self._seen = seen + ids
        return out.logits[0, -1].float()


def chances(logits: Any, allowed: Any, temperature: Any) -> Any:
    """Returns the probabilities (…, v) with which the next token is drawn; at temperature 0 the most likely token is
    certain. logits: (…, v). allowed: booleans of the same shape, or None for all tokens. temperature: a number, or
    (…, 1)."""
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    temperature = torch.as_tensor(temperature, device=logits.device)
    warm = torch.softmax(logits / temperature.clamp(min=1e-6), dim=-1)
    certain = torch.zeros_like(logits).scatter_(-1, logits.argmax(dim=-1, keepdim=True), 1.0)
    return torch.where(temperature > 0, warm, certain)


class ReservedLayer(DynamicLayer):  # type: ignore[misc]
    """The keys and values of a layer, as the first tokens of a buffer that is made once."""

    def __init__(self, rows: int, room: int) -> None:
        """rows: sequences of the batch. room: most tokens of a sequence."""
        super().__init__()
        self._rows = rows
        self.room = room
        self._length = 0
        self._at: Any = None
        """Tensor of the place that the next token of each row is written to; None while tokens are appended."""

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
        """Makes the buffers, (rows, heads, room, numbers of a head) each."""
        self.dtype = key_states.dtype
        self.device = key_states.device
        kind = key_states.device.type
        # else attention, under autocast, would convert all keys and values again for every token
        if torch.is_autocast_enabled(kind):
            self.dtype = torch.get_autocast_dtype(kind)
        self._buffers = [
            torch.empty((self._rows, states.shape[1], self.room, states.shape[3]), dtype=self.dtype, device=self.device)
            for states in (key_states, value_states)
        ]
        self.is_initialized = True

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Writes the keys and values of new tokens, each (rows, heads, tokens, numbers of a head), or (1, …) to write
        the same ones to all rows. Returns the keys and values of all tokens so far. Raises RuntimeError without
        room."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self._at is not None:
            for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
                buffer.index_copy_(2, self._at, new.to(buffer.dtype))
            return self.keys, self.values
        begin = self._length
        self._length = self._length + key_states.shape[2]
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, begin : self._length] = new
        self._show()
        return self.keys, self.values

    def set_write_place(self, at: Any) -> None:
        """Makes later updates write one token of each row, at the place that `at` holds then, a tensor of one number.
        From now on the layer shows its whole buffer, and a mask has to say which tokens are in it."""
        for buffer in self._buffers:
            buffer[:, :, self._length :] = 0  # attention multiplies what the mask hides by 0, which must not be nan
        self._at = at
        self._length = self.room
        self._show()

    def batch_select_indices(self, indices: Any) -> None:
        """Keeps some rows. Those that stay move to the front of the buffer."""
        if not self.is_initialized:
            return
        for place, buffer in enumerate(self._buffers):
            buffer[: len(indices), :, : self._length] = buffer[indices, :, : self._length]
            self._buffers[place] = buffer[: len(indices)]
        self._show()

    def _show(self) -> None:
        """Shows the first tokens of the buffers as keys and values."""
        keys, values = self._buffers
        self.keys = keys[:, :, : self._length]
        self.values = values[:, :, : self._length]


def reserved(cache: Any, rows: int, room: int) -> Any:
    """Returns the cache of a batch whose rows all begin with the one sequence of a cache, which stays as it is.

    room: most tokens of a row. Layers of other kinds are copied, and grow as they do.
    """
    made = DynamicCache()
    made.layer_class_to_replicate = None
    made.layers = [_reserved_layer(layer, rows, room) for layer in cache.layers]
    return made


def _reserved_layer(layer: Any, rows: int, room: int) -> Any:
    if type(layer) is not DynamicLayer:
        made = copy.deepcopy(layer)
        if rows > 1:
            made.batch_repeat_interleave(rows)
        return made
    made = ReservedLayer(rows, room)
    if layer.get_seq_length():
        made.update(layer.keys, layer.values)
    return made
