"""An evaluation: plans its campaigns, runs those that have not ended, and compares the arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sciagent.agent import models
from sciagent.domain.answers.evaluation import EvaluatedCampaign, EvaluationAnswer
from sciagent.errors import SciagentError
from sciagent.store.database.ledger import Ledger
from sciagent.training.evaluation.campaign_runs import fault_of
from sciagent.training.evaluation.planning import PlannedCampaign, planned
from sciagent.training.evaluation.pool import Pool
from sciagent.training.evaluation.spec import SCRIPTED, EvaluateSpec
from sciagent.training.evaluation.summary import compared

Tell = Callable[[EvaluatedCampaign, int, int], None]
"""Is told each campaign that has ended, how many have ended, and how many there are."""
STOPPED = "campaigns are left to run"


class Evaluation:
    """One evaluation. `stop` may be called from any thread.

    folder: of the file with the evaluation, where relative paths start. workers: campaigns at the same time.
    """

    def __init__(self, spec: EvaluateSpec, folder: Path, ledger: Ledger, workers: int = 1) -> None:
        self._spec, self._folder = spec, folder
        self._pool = Pool(ledger, workers)
        self._failed: dict[str, list[str]] = {}
        self._policies: dict[str, str] = {}
        self._plan: list[PlannedCampaign] = []
        for arm in spec.arms:
            try:
                self._plan += planned(spec, folder, arm, self._versions(arm))
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
        return self._answer(found, STOPPED if len(found) + faults < len(self._plan) else None)

    def _versions(self, arm: str) -> Mapping[str, str]:
        """Returns the hash of the weights of the arm's model, by its name; nothing for an arm without a local model.

        Raises UnknownNameError, or ModelError for a model whose files have changed.
        """
        stated = self._spec.arms[arm]
        proposer = stated.proposer or {}
        is_local = proposer.get("kind") == "llm" and proposer.get("endpoint") is None
        name = stated.model or stated.policy or (proposer.get("model") if is_local else None)
        if name is None or name == SCRIPTED:
            return {}
        model = models.find(str(name))
        self._policies[arm] = model.policy
        return {str(name): model.sha256}

    def _answer(self, found: list[EvaluatedCampaign], stopped: str | None) -> EvaluationAnswer:
        order = {campaign.name: place for place, campaign in enumerate(self._plan)}
        found.sort(key=lambda each: order[each.campaign])
        tasks = tuple(dict.fromkeys(campaign.task for campaign in self._plan))
        failed = {arm: tuple(why) for arm, why in self._failed.items()}
        arms, minus = compared(found, tasks, self._spec, self._policies, failed)
        return EvaluationAnswer(
            arms=arms,
            differences=minus,
            tasks=tasks,
            seeds=self._spec.seeds,
            verifications=self._spec.verifications,
            failed={arm: why for arm, why in failed.items() if arm not in arms},
            campaigns=tuple(found),
            stopped=stopped,
        )
