"""The gate of a stage: its policy and the one before, on the same tasks and seeds at equal verification cost."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sciagent.domain.answers.evaluation import EvaluationAnswer, Interval
from sciagent.errors import SciagentError
from sciagent.store.database.ledger import Ledger
from sciagent.training.evaluation.evaluating import Evaluation, Tell
from sciagent.training.evaluation.spec import ArmSpec, EvaluateSpec
from sciagent.training.recipes.stopping import Interrupted, Stopping


class GateError(SciagentError):
    """Policies cannot be compared."""


class PolicyComparison(NamedTuple):
    """Hits by verification of two policies: mean, lower and upper end of the interval of 95 %."""

    before: Interval
    after: Interval
    difference: Interval
    """After less before, paired by task and seed."""

    @property
    def is_worse(self) -> bool:
        """Whether the later policy is worse beyond its interval."""
        return self.difference[2] < 0

    @property
    def sentence(self) -> str:
        verdict = "worse" if self.is_worse else "better" if self.difference[1] > 0 else "not clearly different"
        return (
            f"{verdict}: {self.after[0]:.3g} hits by verification after {self.before[0]:.3g}; "
            f"difference {self.difference[0]:+.3g} ({self.difference[1]:+.3g} to {self.difference[2]:+.3g})"
        )


class Gate:
    """Compares policies on the tasks of an evaluation."""

    def __init__(self, spec: EvaluateSpec, folder: Path, ledger: Ledger, workers: int, stopping: Stopping) -> None:
        """folder: where relative paths of the tasks start. workers: campaigns at the same time."""
        self._spec, self._folder, self._ledger, self._workers = spec, folder, ledger, workers
        self._stopping = stopping

    def compare(self, before: str, after: str, tell: Tell) -> PolicyComparison:
        """Evaluates two models, or goes on with that. Campaigns that have ended are not run again.

        Raises Interrupted, or GateError if a campaign fails.
        """
        arms = {name: ArmSpec(model=name) for name in (before, after)}  # so that a policy is evaluated once
        evaluation = Evaluation(self._spec.model_copy(update={"arms": arms}), self._folder, self._ledger, self._workers)
        with self._stopping.during(evaluation.stop):
            answer = evaluation.run(tell)
        if self._stopping.is_set:
            raise Interrupted
        return comparison(answer, before, after)


def comparison(answer: EvaluationAnswer, before: str, after: str) -> PolicyComparison:
    """Returns the comparison of two arms. Raises GateError if campaigns are missing."""
    failed = [why for arm in answer.arms.values() for why in arm.failed]
    failed += [why for all_ in answer.failed.values() for why in all_]
    if failed:
        raise GateError(f"the policies cannot be compared: {failed[0]}; mend this, and give the same command again")
    if answer.stopped is not None:
        raise GateError(f"the policies are not compared yet: {answer.stopped}; give the same command again")
    [difference] = answer.differences
    was, now = (answer.arms[arm].hits_per_verification for arm in (before, after))
    return PolicyComparison(was, now, difference.hits_per_verification)
