"""The GPUs that a job may see."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sciagent.errors import UsageError


def check(gpus: int) -> None:
    """Raises UsageError if CUDA_VISIBLE_DEVICES is set and names fewer GPUs than `gpus`."""
    if gpus and (own := _own()) is not None and gpus > len(own):
        raise UsageError(f"{gpus} GPUs, and CUDA_VISIBLE_DEVICES names {len(own)}")


def visible(gpus: int, held: Sequence[int]) -> str | None:
    """CUDA_VISIBLE_DEVICES for the process of a job; None leaves the variable as it is, if the worker has no GPU.

    gpus: number of GPUs of the worker. held: GPUs of the job, numbered from 0 among those visible to this process.
    """
    if not gpus:
        return None
    own = _own()
    return ",".join(str(i) if own is None else own[i] for i in held)


def _own() -> list[str] | None:
    """The GPUs that this process may see; None if CUDA_VISIBLE_DEVICES is not set."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]
