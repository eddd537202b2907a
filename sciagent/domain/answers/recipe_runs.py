"""The answers of `sciagent train RECIPE.yaml`."""

from __future__ import annotations

from sciagent.domain.answers.model import AnswerModel


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
    """What the stage did, in sentences."""
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
