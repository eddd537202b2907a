"""The answers of `sciagent train` and `sciagent dataset`, and the check of the output folder of a data set.

A watermark numbers the evidence of a ledger in the order in which it was committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sciagent.domain.answers.candidate_and_value_answers import AnswerModel
from sciagent.errors import UsageError


def check_empty(folder: Path) -> None:
    """Raises UsageError unless the folder is missing or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not empty; name another folder with --out")


class BuiltDataset(AnswerModel):
    """A data set for training."""

    kind: str
    """`rows`, `sft`, `hindsight`, `preference` or `unpaired`."""
    folder: str
    campaigns: tuple[str, ...]
    watermark: int
    """The data set has the evidence up to this watermark, and the turns before it."""
    episodes: int
    """Episodes that were read."""
    rows: Mapping[str, int]
    """Number of rows, by split."""
    tasks: Mapping[str, int]
    """Number of goals, by split."""
    tables: Mapping[str, int]
    """Number of rows of the tables of campaigns, by file; empty for other kinds than `rows`."""
    rewards: Mapping[str, int | None]
    """Version of the rewards, by campaign; None without one. Empty for other kinds than `rows`."""
    left_out: Mapping[str, int]
    """Numbers of turns or pairs that were left out, by reason."""


class ExportedDataset(AnswerModel):
    """A data set in the form of another package."""

    format: str
    """Such as `trl-sft`."""
    kind: str
    """`rows`, `sft`, `hindsight`, `preference` or `unpaired`."""
    source: str
    """The folder of the data set."""
    folder: str
    files: Mapping[str, int]
    """Number of rows, by file."""
    left_out: Mapping[str, int]
    """Numbers of rows or turns that the format cannot express, by reason."""


class StepSeconds(AnswerModel):
    """Elapsed time of a training step by phase, in seconds."""

    sample: float
    """Sampling of answers; 0 for rows that are on disk."""
    verify: float
    """Verification, which may run beside sampling; 0 for rows that are on disk."""
    update: float
    """The computation of the gradient and the update of the weights."""
    wait: float | None = None
    """The time for which sampling has waited for verification; None if it is not known."""

    @property
    def waited(self) -> float:
        """The time for which sampling has waited for verification: `wait`, or all of `verify` if `wait` is not
        known."""
        return self.verify if self.wait is None else self.wait


class TrainedStep(AnswerModel):
    """A training step."""

    step: int
    """Number of the step, from 1."""
    epoch: int
    """From 1."""
    loss: float
    """Mean over the trained tokens."""
    reward: float | None
    """Mean reward of the rows' episodes; None if none is known."""
    masked: float
    """Share of trained tokens that were dropped, since their probability differs too much from when they were drawn."""
    kl: float | None
    """Mean KL divergence from the model at the start, in nats; None if it is not computed."""
    entropy: float
    """Mean entropy of the next token, in nats."""
    grad_norm: float
    """Norm of the gradient, before it was scaled down."""
    value_loss: float | None = None
    """Mean loss of the value head over turns; None without one."""
    explained_variance: float | None = None
    """Share of the variance of what turns earned that the value head had foreseen: 1 all, 0 none; None without one."""
    rows: int
    tokens: int
    """Number of trained tokens."""
    seconds: StepSeconds
    policy: str | None = None
    """Name and hash of the policy that sampled the groups of a step on the live ladder; None for rows on disk."""
    groups: int | None = None
    """Number of groups that were trained; None for rows on disk."""
    dropped: int | None = None
    """Number of groups that taught nothing, since their siblings earned the same; None for rows on disk."""
    late: int | None = None
    """Number of earlier groups that were trained on the change of their rewards; None for rows on disk."""
    terms: Mapping[str, float] = {}
    """Mean over the episodes of each part of the reward, by name; empty for rows on disk."""
    notes: list[str] = []
    """Remarks, such as on a guard that can compute nothing."""


class TrainedPolicy(AnswerModel):
    """The result of a training run."""

    policy: str | None
    """Name and hash of the new model, as `sciagent models` shows it; None if the run is not complete."""
    parent: str
    """Name and hash of the model that was trained."""
    steps: int
    """Steps that the run has taken, those before a restart included."""
    stopped_by: str
    """`rows`: every row was trained as often as asked; `steps`: the limit; `budget`: that of a campaign; `interrupt`;
    or a guard: `control_gap`, `exploitation`, `kl_budget`, `unsettled`."""
    why: str | None = None
    """A sentence with the finding of the guard that stopped the run; None if no guard did."""
    folder: str
    """Folder of the run, with checkpoint, metrics and the new model."""
    left_out: Mapping[str, int]
    """Numbers of rows that were left out, by reason."""


class StageAnswer(AnswerModel):
    """The result of a stage of a recipe."""

    stage: str
    """Name of the stage."""
    kind: str
    policy: str | None
    """Name and hash of the model that the stage made; None for a stage that makes none."""
    parent: str | None
    """Name and hash of the model that the stage began with; None before there is one."""
    steps: int
    stopped_by: str | None
    """Why the training of the stage ended, as of `sciagent train`; None for a stage that does not train."""
    before: tuple[float, float, float] | None = None
    """Hits by verification of the model before, on the held-out tasks: mean, lower and upper end of the interval of
    95 %. None if the stage was not compared."""
    after: tuple[float, float, float] | None = None
    """The same of the model that the stage made."""
    difference: tuple[float, float, float] | None = None
    """After less before, from the same tasks and seeds."""
    taken: bool = True
    """Whether the following stages go on with the model of this stage."""
    told: tuple[str, ...] = ()
    """Sentences about the work of the stage."""
    seconds: float
    """Elapsed time."""


class RecipeAnswer(AnswerModel):
    """The result of a recipe."""

    policy: str | None
    """Name and hash of the last model that was taken over; None if there is none yet."""
    parent: str | None
    """Name and hash of the model at the start."""
    steps: int
    """Training steps of all stages."""
    stopped_by: str
    """`stages`: all stages are done; `until`: the stage that was named is done; `worse`: a stage made the policy worse;
    the name of a guard; `interrupt`."""
    folder: str
    """Folder of the run, with a folder for each stage and the report."""
    stages: tuple[StageAnswer, ...]
    """The stages that are done."""
