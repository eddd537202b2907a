"""Which GPUs a job may see."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sciagent.errors import UsageError


def check(gpus: int) -> None:
    """Raises UsageError for more GPUs than this process sees, where it was told which."""
    if gpus and (mine := _mine()) is not None and gpus > len(mine):
        raise UsageError(f"{gpus} GPUs, and CUDA_VISIBLE_DEVICES names {len(mine)}")


def visible(gpus: int, held: Sequence[int]) -> str | None:
    """What CUDA_VISIBLE_DEVICES is to be in the process of a job; None leaves it, for its worker has no GPU.

    gpus: how many the worker has. held: those of the job, numbers from 0. A worker that was told which GPUs of its
    machine it may see hands on those.
    """
    if not gpus:
        return None
    mine = _mine()
    return ",".join(str(i) if mine is None else mine[i] for i in held)


def _mine() -> list[str] | None:
    """Those that this process may see; None where nobody said."""
    said = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if said is None else [one.strip() for one in said.split(",") if one.strip()]
