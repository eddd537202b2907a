"""Writes the figures of steps for TensorBoard, where it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sciagent.training.progress import TrainedStep

FOLDER = "tensorboard"
LEFT_OUT = ("step", "epoch")


class ScalarWriter:
    """Writes the figures of a run's steps into the folder `tensorboard` of the run.

    The folder is made at the first step. Without TensorBoard nothing is written.
    """

    def __init__(self, folder: Path) -> None:
        """folder: of the run."""
        self._folder = folder / FOLDER
        self._writers: dict[str, Any] = {}

    def add(self, step: TrainedStep, run: str = "") -> None:
        """Writes the figures of a step. run: name of the run, where a folder has several.

        Steps that were written before a crash and are done again replace those."""
        writer = self._writer(run, step.step)
        if writer is not None:
            for name, value in scalars(step).items():
                writer.add_scalar(name, value, step.step)
            writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _writer(self, run: str, first: int) -> Any:
        if find_spec("tensorboard") is None:
            return None
        if run not in self._writers:
            from torch.utils.tensorboard import SummaryWriter

            self._writers[run] = SummaryWriter(str(self._folder / run), purge_step=first)
        return self._writers[run]


def scalars(step: TrainedStep) -> Mapping[str, float]:
    """Returns the figures of a step by name; those of a group, such as the parts of the reward, as `terms/NAME`."""
    found = dict[str, float]()
    for name, value in step.model_dump().items():
        if isinstance(value, Mapping):
            found |= {f"{name}/{part}": float(number) for part, number in value.items() if number is not None}
        elif isinstance(value, int | float) and name not in LEFT_OUT:
            found[name] = float(value)
    return found
