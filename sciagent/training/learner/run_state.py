"""The state of a training run on disk: its recipe, its checkpoint, its metrics, and figures for TensorBoard.

`RunFolder` holds the run. A checkpoint is one file, which replaces the last checkpoint in one rename. After a kill, a
run goes on from the checkpoint and makes the same weights as an undisturbed run; on a CPU with one thread they are
equal bit by bit. `ScalarWriter` writes the figures of steps for TensorBoard, where it is installed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.errors import UsageError
from sciagent.training.command_answers import TrainedStep

ASKED = "run.json"
CHECKPOINT = "checkpoint.pt"
METRICS = "metrics.jsonl"


class RunFolder:
    """The folder of a training run."""

    noted: Any = None
    """Notes that the restored checkpoint holds beside the learner."""

    def __init__(self, folder: Path, asked: Mapping[str, Any]) -> None:
        """asked: the recipe of the run, which decides its result. Raises UsageError if the folder holds another run.

        The same run may take more steps than before.
        """
        self.path = folder
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file; name a folder with --out")
        folder.mkdir(parents=True, exist_ok=True)
        recipe_file = folder / ASKED
        # what a killed process had not finished: files, and the folders of weights and adapter
        for leftover in folder.glob(".*.part"):
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()
        if not recipe_file.is_file():
            if any(folder.iterdir()):
                raise UsageError(f"{folder} has files and is no training run; name another folder with --out")
            _write_json(recipe_file, asked)
            return
        before = json.loads(recipe_file.read_text(encoding="utf-8"))
        is_longer = _is_longer(before, asked)
        if is_longer:
            before = before | {"steps": asked.get("steps")}
        changed = _changed_names(before, asked)
        if changed:
            raise UsageError(f"{folder} holds a training run with another {changed}; name another folder with --out")
        if is_longer:
            _write_json(recipe_file, asked)

    def save(self, learner: Any, step: int, noted: Any = None) -> None:
        """Writes the checkpoint after a step. Every process has to call it; the first one writes.

        noted: lists and plain values to be kept with it.
        """
        import io

        import torch

        state = learner.state()
        if learner.accelerator.is_main_process:
            buffer = io.BytesIO()
            torch.save({"step": step, "noted": noted, **state}, buffer)
            replace_file(self.path / CHECKPOINT, buffer.getbuffer())

    def restore(self, learner: Any) -> int:
        """Loads the checkpoint into the learner; returns the last step that is in it, 0 without a checkpoint.

        Metrics of later steps are removed, since these steps are done again. Raises UsageError if the file is broken.
        """
        import torch

        path = self.path / CHECKPOINT
        step = 0
        if path.is_file():
            try:
                state = torch.load(path, map_location="cpu", weights_only=True)
                step = int(state.pop("step"))
                self.noted = state.pop("noted", None)
            except Exception as error:
                raise UsageError(f"{path} cannot be read; remove the folder to begin anew: {error}") from error
            learner.restore(state)
        if learner.accelerator.is_main_process:
            kept = [json.dumps(line) for line in self.metrics() if line["step"] <= step]
            replace_file(self.path / METRICS, "".join(f"{line}\n" for line in kept).encode())
        learner.accelerator.wait_for_everyone()
        return step

    def metrics(self) -> list[Mapping[str, Any]]:
        """Returns the metrics of all steps so far. A last line that a kill has cut is left out."""
        path = self.path / METRICS
        metrics = list[Mapping[str, Any]]()
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        for line in lines:
            try:
                metrics.append(json.loads(line))
            except ValueError:
                break
        return metrics

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        with (self.path / METRICS).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Writes a file in one rename: after a crash it is the old one or the new one."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)


def _write_json(path: Path, asked: Mapping[str, Any]) -> None:
    replace_file(path, json.dumps(asked, indent=2, sort_keys=True).encode() + b"\n")


def _is_longer(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Returns whether a run is to take more steps than before. Without a number of steps it takes all rows."""
    steps_before = before.get("steps")
    steps_now = now.get("steps")
    return steps_before is not None and (steps_now is None or steps_now > steps_before)


def _changed_names(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Returns the names of the settings that differ."""
    names = [name for name in sorted({*before, *now}) if content_hash(before.get(name)) != content_hash(now.get(name))]
    return ", ".join(names)


FOLDER = "tensorboard"
LEFT_OUT = ("step", "epoch")  # fields of a step that are no figures


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

        A step that is done again after a crash replaces the figures that it wrote before."""
        writer = self._writer(run, step.step)
        if writer is not None:
            for name, value in scalars(step).items():
                writer.add_scalar(name, value, step.step)
            writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _writer(self, run: str, first: int) -> Any:
        """Returns the writer of a run; None without TensorBoard. first: number of the step; a new writer removes the
        figures from this step on."""
        if find_spec("tensorboard") is None:
            return None
        if run not in self._writers:
            from torch.utils.tensorboard import SummaryWriter

            self._writers[run] = SummaryWriter(str(self._folder / run), purge_step=first)
        return self._writers[run]


def scalars(step: TrainedStep) -> Mapping[str, float]:
    """Returns the figures of a step by name; those of a group, such as the parts of the reward, as `terms/NAME`."""
    figures = dict[str, float]()
    for name, value in step.model_dump().items():
        if isinstance(value, Mapping):
            for part, number in value.items():
                if number is not None:
                    figures[f"{name}/{part}"] = float(number)
        elif isinstance(value, int | float) and name not in LEFT_OUT:
            figures[name] = float(value)
    return figures
