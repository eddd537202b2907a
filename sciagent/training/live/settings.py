"""The wishes of a person for training on the live ladder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sciagent.errors import UsageError
from sciagent.training.learner.settings import StepSettings
from sciagent.training.rollouts.snapshot import beginning


@dataclass(frozen=True)
class TaskShare:
    """A campaign that is a task, and its share of the groups."""

    file: Path
    """The campaign, a YAML file."""
    weight: float = 1.0
    """Above 0; the share is this divided by the sum over all tasks."""


@dataclass(frozen=True)
class LiveWish:
    """The task of a training run on the live ladder."""

    tasks: tuple[TaskShare, ...]
    model: str
    """Name of the model that is trained."""
    out: Path
    """Folder of the run."""
    name: str
    """Name of the new model."""
    rewards: Path
    """The description of the rewards, a YAML file."""
    training: str = "grpo"
    credit: str | None = None
    """Estimator of the advantages; None: as the description of the rewards says."""
    steps: int = 20
    groups: int = 4
    """Groups of a step that have something to learn."""
    siblings: int = 8
    """Episodes of a group."""
    turns: int = 6
    """Most answers in an episode."""
    begins: str = "now"
    """The candidates that groups see: `now`, all that the campaign has; `seeds`; `now:N` or `seeds:N`, N of them."""
    further: int | None = None
    """Most groups of a step that are rolled out in place of those whose siblings all earned the same; None: as many as
    `groups`."""
    patience: float = 3600.0
    """Longest time, in seconds, that a step waits for paid rungs."""
    workers: int | None = None
    """Paid jobs, and processes of inline rungs, at once; None: as in the campaigns."""
    parts: int = 4
    """Parts of a step's groups that take turns: while one samples, the calls of the others are verified; 1: sampling
    waits for each verification."""
    ahead: int = 0
    """Steps by which sampling is ahead of training: 0 or 1."""
    lag: int = 1
    """Most versions by which the policy that is trained is ahead of the one that sampled."""
    rank: int = 0
    """Rank of the LoRA adapter; 0 trains all weights."""
    seed: int = 0
    save_every: int = 1
    """Steps between checkpoints."""
    threads: int | None = None
    """Threads of PyTorch on a CPU; None: as many as there are cores."""
    kl_budget: float | None = None
    """The run stops where the KL divergence from the model at the start is larger; None: never."""
    endpoint: str | None = None
    """Address of a server that samples the answers, to which each version is loaded as an adapter; None: the model
    samples in this process."""
    actors: int = 0
    """Processes of Ray that roll out the groups, each those of its campaigns; 0: this process does."""
    ray_address: str | None = None
    """Address of a cluster of Ray; None: Ray is started on this machine."""
    settings: StepSettings = field(default_factory=StepSettings)
    guards: Mapping[str, Any] | None = None
    """Limits of the guards by name; None: the usual ones."""

    @property
    def most_groups(self) -> int:
        """Most groups of a step."""
        return self.groups + (self.groups if self.further is None else self.further)

    def check(self) -> None:
        """Raises UsageError for numbers that are out of range."""
        if not self.tasks:
            raise UsageError("training on the live ladder needs a campaign file")
        for task in self.tasks:
            if not 0 < task.weight < float("inf"):
                raise UsageError(f"{task.file}: the weight {task.weight:g} is not above 0")
        for name in ("steps", "groups", "siblings", "turns", "save_every", "parts"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} is below 1")
        if self.training == "ppo" and self.settings.critic is None:
            raise UsageError("training: ppo needs a value head; say its settings in settings.critic")
        if self.endpoint is not None and not self.rank:
            raise UsageError(f"endpoint: {self.endpoint} samples from adapters; train one with --lora RANK")
        if self.ray_address is not None and not self.actors:
            raise UsageError(f"ray_address: {self.ray_address} has no actors; say how many with --actors")
        beginning(self.begins)
        if not 0 <= self.ahead <= 1:
            raise UsageError(f"ahead: {self.ahead} is neither 0 nor 1")
        if self.ahead > self.lag:
            raise UsageError(f"ahead: {self.ahead} is more than the {self.lag} versions that lag allows")
        if self.siblings < 2:
            raise UsageError("siblings: 1 has nobody to be compared with; take 2 or more")
