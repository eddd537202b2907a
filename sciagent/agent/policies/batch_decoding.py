"""Draws the answers to several prompts at once from a causal model.

What all prompts begin with is computed once. The rest of the shorter prompts is padded on the left, and padding is
never attended to. Each answer has its own random numbers and its own grammar, so that it does not depend on the others,
but for the last digits of the sums.

On a GPU the next token of each answer is computed as a CUDA graph. A small model leaves the GPU waiting for the
processor, which starts some hundred kernels for each token; a graph starts all of them at once. All its shapes are
fixed: attention sees the whole reserved room, of which a mask shows what is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from sciagent.agent.messages_sampling_and_policy_client import PolicyError, Sampling, shared_prefix
from sciagent.agent.policies.decoding_and_key_value_cache import (
    CHUNK,
    AnswerDraw,
    Drawn,
    ReservedLayer,
    reserved,
    take_all,
)
from sciagent.agent.policies.schema_tokens import ConstrainedAnswer


class BatchLimits(NamedTuple):
    """The sizes of batches."""

    rows: int = 32
    """Largest number of prompts at once."""
    tokens: int = 1 << 16
    """Largest number of tokens, of all prompts and answers at once, whose keys and values are kept."""
    chunk: int = CHUNK
    """Largest number of prompt tokens that are computed at once."""
    shared: float = 0.5
    """Smallest share of its tokens that a prompt has in common with the others of its batch."""


def limits_of(model: Any) -> BatchLimits:
    """Returns the limits for a model on its device.

    On a GPU the time of a token hardly depends on the number of rows, so that prompts are put together even if they
    have little in common. Keys and values, 4 bytes a number, take at most a quarter of its memory.
    """
    if model.device.type != "cuda":
        return BatchLimits()
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    memory = torch.cuda.get_device_properties(model.device).total_memory // 4
    bytes_per_token = 4 * 2 * config.num_hidden_layers * heads * width  # a key and a value, 4 bytes a number
    return BatchLimits(rows=256, tokens=memory // bytes_per_token, chunk=1 << 15, shared=0.0)


class WantedAnswer(NamedTuple):
    """An answer that is wanted."""

    prompt: list[int]
    limit: int
    """Most tokens of the answer."""
    sampling: Sampling
    answer: ConstrainedAnswer | None
    """The grammar of the answer; None without one."""


def batches(wanted: Sequence[WantedAnswer], limits: BatchLimits) -> list[Sequence[WantedAnswer]]:
    """Returns the wanted answers, in order, in parts that fit into memory together.

    On a CPU the prompts of a part share at least half of their tokens if there are several, as the prompts of siblings
    do: what they share is computed once.
    """
    parts: list[list[WantedAnswer]] = [[]]
    longest = 0
    for answer in wanted:
        n_tokens = len(answer.prompt) + answer.limit
        longest = max(longest, n_tokens)
        if _begins_new_part(parts[-1], answer, longest, limits):
            parts.append([])
            longest = n_tokens
        parts[-1].append(answer)
    return [part for part in parts if part]


def _begins_new_part(part: Sequence[WantedAnswer], answer: WantedAnswer, longest: int, limits: BatchLimits) -> bool:
    """Returns whether an answer does not belong to a part. longest: tokens of the longest prompt with its answer."""
    if not part:
        return False
    is_full = len(part) == limits.rows or longest * (len(part) + 1) > limits.tokens
    shorter = min(len(part[0].prompt), len(answer.prompt))
    return is_full or shared_prefix(part[0].prompt, answer.prompt) < limits.shared * shorter


def can_batch(config: Any) -> bool:
    """Returns whether answers of a model can be drawn together: a sliding window would count padding as text."""
    return not getattr(config, "sliding_window", None)


class BatchDecoder:
    """The batches of answers from a model. What the prompts of a batch begin with is kept for the next one."""

    def __init__(self, model: Any, ends: frozenset[int], go_on: Callable[[], None]) -> None:
        """ends: ids of end tokens. go_on: called before each computation; it raises an error to stop."""
        self._model = model
        self._ends = ends
        self._go_on = go_on
        self.limits = limits_of(model)
        self._prefix: list[int] = []  # ids of the last common beginning
        self._prefix_cache: Any = None  # keys and values of these ids
        self._cache: Any = None  # keys and values of the batch
        self._mask: Any = None  # (rows, tokens so far) whether a token may be attended to

    def draw(self, wanted: Sequence[WantedAnswer]) -> list[Drawn | PolicyError]:
        """Draws the answers, in order. A grammar that fails ends its own answer alone."""
        rows = [_Row(answer, self._ends, self._model.device, place) for place, answer in enumerate(wanted)]
        with torch.inference_mode():
            longest_answer = max(answer.limit for answer in wanted)
            logits = self._after_prompts([answer.prompt for answer in wanted], longest_answer)
            graph = None
            if can_graph(self._cache, self._model.device):
                graph = TokenGraph(self._model, self._cache, self._mask)
            unfinished = _draw_next(rows, logits)
            while unfinished:
                self._go_on()
                if graph is None:
                    logits = self._after_tokens(unfinished)
                else:
                    # a graph computes all rows, also those of finished answers
                    ids, places = self._last_tokens(rows)
                    logits = graph.logits(ids, places)[[row.place for row in unfinished]]
                unfinished = _draw_next(unfinished, logits)
        self._cache = None
        self._mask = None
        return [row.drawn if row.fault is None else row.fault for row in rows]

    def _after_tokens(self, unfinished: Sequence[_Row]) -> Any:
        """Returns (n, v) logits after the last tokens of the n unfinished answers. Drops the rows of the others."""
        if len(unfinished) < len(self._mask):
            self._keep([row.place for row in unfinished])
            for place, row in enumerate(unfinished):
                row.place = place
        ids, places = self._last_tokens(unfinished)
        return self._forward(ids, torch.ones_like(ids), places)

    def _last_tokens(self, rows: Sequence[_Row]) -> tuple[Any, Any]:
        """Returns (n, 1) ids of the last tokens that were drawn, and (n, 1) their positions."""
        device = self._model.device
        ids = torch.tensor([[row.last] for row in rows], device=device)
        return ids, torch.tensor([[row.length - 1] for row in rows], device=device)

    def _after_prompts(self, prompts: Sequence[list[int]], limit: int) -> Any:
        """Returns (rows, v) logits after the prompts. limit: largest number of tokens of an answer."""
        device = self._model.device
        n = len(prompts)
        shared = min(shared_prefix(prompts[0], prompt) for prompt in prompts)
        shortest = min(map(len, prompts))
        shared = min(shared, shortest - 1)  # the last token is computed for each prompt, since its logits are needed
        self._compute_prefix(prompts[0][:shared])
        own_parts = [prompt[shared:] for prompt in prompts]
        width = max(map(len, own_parts))
        # a copy for all rows, so that the kept prefix stays as it is
        self._cache = reserved(self._cache, n, shared + width + limit)
        self._mask = self._mask.expand(n, -1)
        n_padding = [width - len(part) for part in own_parts]
        padded = [[0] * n_pad + part for n_pad, part in zip(n_padding, own_parts, strict=True)]
        ids = torch.tensor(padded, device=device)
        # the number of each column among the tokens of its own row; padding has negative numbers
        columns = torch.arange(width, device=device)[None] - torch.tensor(n_padding, device=device)[:, None]
        mask = (columns >= 0).long()
        places = shared + columns.clamp(min=0)
        step = max(1, self.limits.chunk // n)
        for begin in range(0, width, step):
            self._go_on()
            part = slice(begin, begin + step)
            logits = self._forward(ids[:, part], mask[:, part], places[:, part])
        return logits

    def _compute_prefix(self, prefix: list[int]) -> None:
        """Computes the common beginning of all prompts, and keeps its keys and values. The part that it shares with the
        last batch's common beginning is not computed again."""
        from transformers import DynamicCache

        device = self._model.device
        known = shared_prefix(self._prefix, prefix)
        self._cache = self._prefix_cache
        self._prefix_cache = None
        self._prefix = []  # an error leaves no incomplete prefix behind
        if self._cache is None or not known:
            self._cache = DynamicCache(config=self._model.config)
            known = 0
        n_surplus = self._cache.get_seq_length() - known
        if n_surplus:
            self._cache.crop(-n_surplus)  # a negative number crops from the end
        self._mask = torch.ones((1, known), dtype=torch.long, device=device)
        for begin in range(known, len(prefix), self.limits.chunk):
            self._go_on()
            ids = torch.tensor([prefix[begin : begin + self.limits.chunk]], device=device)
            places = torch.arange(begin, begin + ids.shape[1], device=device)[None]
            self._forward(ids, torch.ones_like(ids), places)
        self._prefix_cache = self._cache
        self._prefix = prefix

    def _forward(self, ids: Any, mask: Any, places: Any) -> Any:
        """Returns (rows, v) logits after the last column, in single precision. ids, mask, places: (rows, columns); the
        mask is 0 for padding, and places are the positions in the sequences."""
        self._mask = torch.cat([self._mask, mask], dim=1)
        out = self._model(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=places,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits[:, -1].float()

    def _keep(self, places: Sequence[int]) -> None:
        """Keeps these rows of the cache and the mask, and drops the others."""
        rows = torch.tensor(places, device=self._model.device)
        self._cache.batch_select_indices(rows)
        self._mask = self._mask[rows]


class _Row:
    """One answer in the making."""

    def __init__(self, wanted: WantedAnswer, ends: frozenset[int], device: Any, place: int) -> None:
        """place: the row's number in the tensors of the batch."""
        self._prompt = wanted.prompt
        self.place = place
        self.draw = AnswerDraw(wanted.sampling, wanted.limit, ends, wanted.answer, device)
        self.fault: PolicyError | None = None

    @property
    def drawn(self) -> Drawn:
        return self.draw.drawn

    @property
    def last(self) -> int:
        """Id of the last token that was drawn; 0 without one."""
        return self.drawn.ids[-1] if self.drawn.ids else 0

    @property
    def length(self) -> int:
        """Number of tokens of the prompt and the answer so far."""
        return len(self._prompt) + len(self.drawn.ids)


def _draw_next(rows: Sequence[_Row], logits: Any) -> list[_Row]:
    """Draws the next token of each answer. Returns the rows whose answers go on after it. logits: (rows, v)."""
    results = take_all([row.draw for row in rows], logits)
    unfinished = []
    for row, result in zip(rows, results, strict=True):
        if isinstance(result, PolicyError):
            row.fault = result
        elif result:
            unfinished.append(row)
    return unfinished


CAPTURING = threading.Lock()  # one graph at a time is made in a process


def can_graph(cache: Any, device: Any) -> bool:
    """Returns whether the next tokens of a batch can be computed by a graph."""
    return device.type == "cuda" and all(type(layer) is ReservedLayer for layer in cache.layers)


class TokenGraph:
    """The computation of the next token of each row, at fixed places in memory."""

    def __init__(self, model: Any, cache: Any, mask: Any) -> None:
        """cache: of `reserved`, with all prompts. mask: (rows, tokens so far) whether a token may be attended to."""
        rows, n_tokens = mask.shape
        layers = cache.layers
        self._model = model
        self._cache = cache
        self._mask = torch.zeros((rows, 1, 1, layers[0].room), dtype=torch.bool, device=mask.device)
        self._mask[:, 0, 0, :n_tokens] = mask.bool()
        # place of the next token
        self._at = torch.full((1,), n_tokens, device=mask.device)
        self._ids = torch.zeros((rows, 1), dtype=torch.long, device=mask.device)
        self._places = torch.zeros_like(self._ids)
        for layer in layers:
            layer.set_write_place(self._at)
        self._graph: Any = None
        self._is_warmed_up = False
        self._logits: Any = None

    def logits(self, ids: Any, places: Any) -> Any:
        """Returns (rows, v) logits after one more token of each row, in single precision. The next call overwrites
        them. ids, places: (rows, 1) the tokens and their positions."""
        self._ids.copy_(ids)
        self._places.copy_(places)
        if self._is_warmed_up and self._graph is None and self._ids.is_cuda:
            self._graph = self._capture()
        if self._graph is not None:
            self._graph.replay()
        else:
            # the first token also makes workspaces and tables of kernels, which a graph cannot make
            self._is_warmed_up = True
            self._logits = self._compute_logits()
        return self._logits

    def _capture(self) -> Any:
        """Returns the graph of the computation, whose logits are written anew by each replay."""
        graph = torch.cuda.CUDAGraph()
        # Autocast keeps copies of converted weights until its block ends. A copy that is made during a capture lies in
        # the graph's memory, and is filled by a replay only; one that was made before is freed with the block. So
        # autocast keeps none here: the graph itself converts the weights, again for each token.
        was_enabled = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            # `thread_local`, since another thread may train on the same GPU
            with CAPTURING, torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._logits = self._compute_logits()
        finally:
            torch.set_autocast_cache_enabled(was_enabled)
        return graph

    def _compute_logits(self) -> Any:
        """Returns (rows, v) logits after the tokens in `_ids`, and moves the place of the next token on by one."""
        self._mask.index_fill_(3, self._at, True)
        out = self._model(
            input_ids=self._ids,
            attention_mask=self._mask,
            position_ids=self._places,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self._at.add_(1)
        return out.logits[:, -1].float()
