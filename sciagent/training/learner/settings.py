"""The settings of a training run, of its steps and of the loss. They are read without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Wish = TypeVar("Wish")
SUPERVISED_RATE = 2e-5
"""Learning rate of AdamW for imitation and distillation, unless another is stated."""
POLICY_RATE = 1e-6
"""Learning rate of AdamW for policy gradients, unless another is stated."""


@dataclass(frozen=True)
class LossSettings:
    """The constants of the loss."""

    clip_low: float = 0.8
    """Smallest ratio that still gives a gradient to a token of negative advantage."""
    clip_high: float = 1.28
    """Largest ratio that still gives a gradient to a token of positive advantage."""
    mask_low: float = 0.5
    """A token with a smaller ratio is dropped."""
    mask_high: float = 5.0
    """A token with a larger ratio is dropped."""
    kl: float = 0.0
    """Factor of the KL divergence from the reference."""
    distillation: float = 0.0
    """Factor of the reverse KL divergence from the teachers."""
    entropy: float = 0.0
    """Factor of an entropy bonus. The entropy is reported in any case."""


@dataclass(frozen=True)
class CriticSettings:
    """The constants of a value head and of the advantages that it gives (PPO)."""

    learning_rate: float = 1e-3
    """Learning rate of the value head; the policy has its own."""
    loss: float = 0.1
    """Factor of the value loss, whose gradient reaches the policy's weights too."""
    warmup: int = 20
    """Updates of the value head alone, on the first rows, before the first update of the policy."""
    clip: float | None = None
    """Largest change of a value within a step that still lowers the loss, in running standard deviations of the
    targets; None: no limit."""
    discount: float = 1.0
    """Factor of the reward of the next turn (gamma)."""
    decay: float = 0.95
    """0 trusts the value head, 1 the rewards (lambda of generalised advantage estimation)."""
    passes: int = 4
    """Updates of the weights on the rows of a step. Advantages stay as they were before the first one."""


@dataclass(frozen=True)
class StepSettings:
    """The constants of a training step."""

    learning_rate: float = 1e-5
    weight_decay: float = 0.0
    most_gradient: float = 1.0
    """Gradients of a larger norm are scaled down to it."""
    most_tokens: int = 8192
    """Tokens of a micro-batch, after padding."""
    loss: LossSettings = field(default_factory=LossSettings)
    critic: CriticSettings | None = None
    """Settings of the value head of PPO; None without one."""


class TeacherShare(NamedTuple):
    """A model that teaches, and how much its divergence counts."""

    name: str
    """Name of a model of this machine."""
    weight: float = 1.0


@dataclass(frozen=True)
class TrainingWish:
    """The task of a training run."""

    training: str
    """`sft`, `grpo`, `ppo`, `distill` or `hindsight`."""
    rows: Path
    """A folder that `dataset build` wrote."""
    model: str
    """Name of the model that is trained."""
    out: Path
    """Folder of the run."""
    name: str
    """Name of the new model."""
    rows_per_step: int = 32
    epochs: int = 1
    steps: int | None = None
    """Most steps; None for all rows."""
    rank: int = 0
    """Rank of the LoRA adapter; 0 trains all weights."""
    seed: int = 0
    kl_budget: float | None = None
    """The run stops where the KL divergence from the model at the start is larger; None: never."""
    save_every: int = 20
    """Steps between checkpoints."""
    threads: int | None = None
    """Threads of PyTorch on a CPU; None: as many as there are cores."""
    settings: StepSettings = field(default_factory=StepSettings)
    teachers: tuple[TeacherShare, ...] = ()
    """Teachers of `distill`, with their weights."""


def filled(wish: type[Wish], *sources: object, **given: Any) -> Wish:
    """Returns a task whose fields have the values that the sources have under the same names.

    wish: a dataclass. sources: dataclasses or models of pydantic; a later one replaces the values of an earlier one.
    given: replaces the values of all of them.
    """
    names = {each.name for each in fields(wish)}  # type: ignore[arg-type]
    same = {name: value for source in sources for name, value in vars(source).items() if name in names}
    return wish(**{**same, **given})
