"""A cache with reserved room holds what a growing one holds, and copies nothing when a token is added."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache, LlamaConfig

from sciagent.agent.policies.decoding_and_key_value_cache import reserved

LAYERS, HEADS, SIZE = 2, 2, 4
CONFIG = LlamaConfig(
    num_hidden_layers=LAYERS, hidden_size=HEADS * SIZE, num_attention_heads=HEADS, num_key_value_heads=HEADS
)


def states(rows: int, tokens: int, seed: int) -> Any:
    return torch.randn((2, rows, HEADS, tokens, SIZE), generator=torch.Generator().manual_seed(seed))


def add(cache: Any, rows: int, tokens: int, seed: int) -> list[Any]:
    """Adds the same keys and values to a cache whatever it is; returns what the attention of each layer sees."""
    return [cache.update(*states(rows, tokens, seed + layer), layer) for layer in range(LAYERS)]


def assert_equal(ours: list[Any], theirs: list[Any]) -> None:
    for pair in zip(ours, theirs, strict=True):
        for mine, other in zip(*pair, strict=True):
            assert torch.equal(mine, other)


def test_it_holds_what_a_growing_cache_holds_after_rows_were_dropped() -> None:
    kept, growing = DynamicCache(config=CONFIG), DynamicCache(config=CONFIG)
    for each in (kept, growing):
        add(each, 1, 5, 0)
    growing.batch_repeat_interleave(3)
    ours = reserved(kept, 3, 9)
    assert_equal(add(ours, 3, 2, 10), add(growing, 3, 2, 10))
    for cache in (ours, growing):
        cache.batch_select_indices(torch.tensor([0, 2]))
    assert_equal(add(ours, 2, 1, 20), add(growing, 2, 1, 20))
    assert ours.get_seq_length() == growing.get_seq_length() == 8
    assert kept.get_seq_length() == 5 and kept.layers[0].keys.shape[0] == 1, "the beginning is kept for the next batch"


def test_a_new_token_is_written_in_place() -> None:
    cache = reserved(DynamicCache(config=CONFIG), 2, 4)
    places = set[int]()
    for step in range(4):
        [(keys, _), _] = add(cache, 2, 1, step)
        places.add(keys.data_ptr())
    assert len(places) == 1 and keys.shape[2] == 4


def test_under_autocast_it_holds_what_attention_computes_with() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        cache = reserved(DynamicCache(config=CONFIG), 2, 4)
        [(keys, values), _] = add(cache, 2, 1, 0)
    assert keys.dtype == values.dtype == torch.bfloat16
