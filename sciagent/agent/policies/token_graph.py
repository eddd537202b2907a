"""One more token of each answer of a batch, on a GPU, as a CUDA graph.

A small model leaves the GPU waiting for the processor, which starts some hundred kernels for each token. A graph starts
all of them at once. All its shapes are fixed: attention sees the whole reserved room, of which a mask shows what is
written.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from sciagent.agent.policies.reserved_cache import ReservedLayer

CAPTURING = threading.Lock()  # one graph at a time is made in a process


def can_graph(cache: Any, device: Any) -> bool:
    """Returns whether the next tokens of a batch can be computed by a graph."""
    return device.type == "cuda" and all(type(layer) is ReservedLayer for layer in cache.layers)


class TokenGraph:
    """The computation of the next token of each row, at fixed places in memory."""

    def __init__(self, model: Any, cache: Any, mask: Any) -> None:
        """cache: of `reserved`, with all prompts. mask: (rows, tokens so far) whether a token may be attended to."""
        rows, seen = mask.shape
        layers = cache.layers
        self._model, self._cache = model, cache
        self._mask = torch.zeros((rows, 1, 1, layers[0].room), dtype=torch.bool, device=mask.device)
        self._mask[:, 0, 0, :seen] = mask.bool()
        self._at = torch.full((1,), seen, device=mask.device)
        self._ids, self._places = (torch.zeros((rows, 1), dtype=torch.long, device=mask.device) for _ in range(2))
        for layer in layers:
            layer.write_at(self._at)
        self._graph: Any = None
        self._begun = False
        self._logits: Any = None

    def logits(self, ids: Any, places: Any) -> Any:
        """Returns (rows, v) logits after one more token of each row, in single precision; the next call writes over
        them. ids, places: (rows, 1) the tokens and their positions."""
        self._ids.copy_(ids)
        self._places.copy_(places)
        if self._begun and self._graph is None and self._ids.is_cuda:
            self._graph = self._captured()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._begun = True  # the first token also makes what a graph cannot make: workspaces, tables of kernels
            self._logits = self._computed()
        return self._logits

    def _captured(self) -> Any:
        """Returns the graph of the computation, whose logits are written anew by each replay."""
        graph = torch.cuda.CUDAGraph()
        # inside a graph, weights in another precision are converted for each token
        kept = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            # while another thread may train on the same GPU
            with CAPTURING, torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._logits = self._computed()
        finally:
            torch.set_autocast_cache_enabled(kept)
        return graph

    def _computed(self) -> Any:
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
