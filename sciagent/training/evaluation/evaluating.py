"""An evaluation: plans its campaigns, runs those that have not ended, and compares the arms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sciagent.agent import models
from sciagent.agent.models import Model
from sciagent.domain.answers.evaluation import EvaluatedCampaign, EvaluationAnswer
from sciagent.domain.policies import IN_PROCESS, PolicyIdentity
from sciagent.errors import SciagentError
from sciagent.inputs.settings import user
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies, roles, training
from sciagent.training.evaluation.campaign_runs import fault_of
from sciagent.training.evaluation.figures import compared
from sciagent.training.evaluation.planning import PlannedCampaign, planned
from sciagent.training.evaluation.pool import Pool
from sciagent.training.evaluation.spec import SCRIPTED, ArmSpec, EvaluateSpec

Tell = Callable[[EvaluatedCampaign, int, int], None]
"""Is told each campaign that has ended, how many have ended, and how many there are."""
STOPPED = "campaigns are left to run"


class Evaluation:
    """One evaluation. `stop` may be called from any thread.

    folder: of the file with the evaluation, where relative paths start. workers: campaigns at the same time.
    """

    def __init__(self, spec: EvaluateSpec, folder: Path, ledger: Ledger, workers: int = 1) -> None:
        self._spec, self._ledger = spec, ledger
        self._pool = Pool(ledger, workers)
        self._failed: dict[str, list[str]] = {}
        self._models: dict[str, Model] = {}  # by arm
        self._plan: list[PlannedCampaign] = []
        for arm, stated in spec.arms.items():
            try:
                resolved = self._resolved(arm, stated)
                version = self._models[arm].sha256 if arm in self._models else ""
                self._plan += planned(spec, folder, arm, resolved, version)
            except SciagentError as error:
                self._failed[arm] = [fault_of(error)]

    def stop(self, now: bool = False) -> None:
        """Stops the campaigns that run; the next run goes on with them. now: jobs that run are ended, too."""
        self._pool.stop(now)

    def run(self, tell: Tell) -> EvaluationAnswer:
        """Runs all campaigns, or goes on with them. An arm that fails does not stop the others."""
        found: list[EvaluatedCampaign] = []
        faults = 0
        for campaign, result in self._pool.run(self._plan):
            if isinstance(result, str):
                faults += 1
                self._failed.setdefault(campaign.arm, []).append(f"{campaign.name}: {result}")
            else:
                found.append(result)
                tell(result, len(found), len(self._plan))
        return self._answer(found, len(found) + faults < len(self._plan))

    def _resolved(self, arm: str, stated: ArmSpec) -> ArmSpec:
        """Returns an arm whose policy is the name of a model. Keeps the model of an arm with a local one.

        Raises UnknownNameError, or UsageError for a model that is not here or has changed.
        """
        model = self._model(stated)
        if model is None:
            return stated
        self._models[arm] = model
        return ArmSpec(model=model.name) if stated.policy else stated

    def _model(self, stated: ArmSpec) -> Model | None:
        if stated.policy == SCRIPTED:
            return None
        if stated.policy is not None:
            with self._ledger.read() as connection:
                policy = roles.resolved(connection, stated.policy)
            return models.of_weights(policy.base_sha256, policy.name)
        proposer = stated.proposer or {}
        is_local = proposer.get("kind") == "llm" and "model" in proposer and proposer.get("endpoint") is None
        name = stated.model or (proposer["model"] if is_local else None)
        return None if name is None else models.find(str(name))

    def _answer(self, found: list[EvaluatedCampaign], is_stopped: bool) -> EvaluationAnswer:
        order = {campaign.name: place for place, campaign in enumerate(self._plan)}
        found.sort(key=lambda each: order[each.campaign])
        tasks = tuple(dict.fromkeys(campaign.task for campaign in self._plan))
        failed = {arm: tuple(why) for arm, why in self._failed.items()}
        names = {arm: model.policy for arm, model in self._models.items()}
        arms, minus = compared(found, tasks, self._spec, names, failed)
        answer = EvaluationAnswer(
            arms=arms,
            differences=minus,
            tasks=tasks,
            seeds=self._spec.seeds,
            verifications=self._spec.verifications,
            failed={arm: why for arm, why in failed.items() if arm not in arms},
            campaigns=tuple(found),
            stopped=STOPPED if is_stopped else None,
        )
        return answer.model_copy(update={"evaluation": None if is_stopped or not arms else self._entered(answer)})

    def _entered(self, answer: EvaluationAnswer) -> int:
        """Writes a complete evaluation, and the policies of its arms, to the ledger; returns its number."""
        plain = answer.model_dump(mode="json", exclude={"evaluation"})
        with self._ledger.begin() as connection:
            ids = {
                arm: policies.enter(connection, PolicyIdentity(model.policy, IN_PROCESS, model.sha256))
                for arm, model in self._models.items()
                if arm in answer.arms
            }
            return training.enter(connection, self._spec.model_dump(mode="json"), plain, ids, user())
