"""Keys and values of a batch, with room for all its tokens: a new token is written in place, and nothing is copied."""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer


class ReservedLayer(DynamicLayer):  # type: ignore[misc]
    """The keys and values of a layer, as the first tokens of a buffer that is made once."""

    def __init__(self, rows: int, room: int) -> None:
        """rows: sequences of the batch. room: most tokens of a sequence."""
        super().__init__()
        self._rows, self.room, self._length = rows, room, 0
        self._at: Any = None

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
        """Makes the buffers, (rows, heads, room, numbers of a head) each."""
        self.dtype, self.device, kind = key_states.dtype, key_states.device, key_states.device.type
        if torch.is_autocast_enabled(kind):  # attention would convert all of them for every token
            self.dtype = torch.get_autocast_dtype(kind)
        self._buffers = [
            torch.empty((self._rows, each.shape[1], self.room, each.shape[3]), dtype=self.dtype, device=self.device)
            for each in (key_states, value_states)
        ]
        self.is_initialized = True

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Writes the keys and values of new tokens, each (rows, heads, tokens, numbers of a head); the same ones for
        all rows if they are given for one. Returns those of all tokens so far. Raises RuntimeError without room."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self._at is not None:
            for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
                buffer.index_copy_(2, self._at, new.to(buffer.dtype))
            return self.keys, self.values
        begin, self._length = self._length, self._length + key_states.shape[2]
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, begin : self._length] = new
        self._show()
        return self.keys, self.values

    def write_at(self, at: Any) -> None:
        """Writes one token of each row from now on, at a place that a tensor of one number holds. Then the whole buffer
        is shown: a mask has to say what is in it."""
        for buffer in self._buffers:
            buffer[:, :, self._length :] = 0  # attention multiplies what the mask hides by 0, which must not be nan
        self._at, self._length = at, self.room
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
        self.keys, self.values = (buffer[:, :, : self._length] for buffer in self._buffers)


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
