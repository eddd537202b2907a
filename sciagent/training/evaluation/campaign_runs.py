"""Runs the campaigns of an evaluation in this process, one after another. The last model stays loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sciagent.agent.messages import EpisodeQuestion, Message, PolicyClient, PolicyError, Sampled, Sampling
from sciagent.agent.policies.batches import BatchPolicy
from sciagent.campaign.core.build import Built, create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.sources import LlmSpec
from sciagent.campaign.proposing.sources import source_of, start_policy
from sciagent.campaign.spec.load import parse_spec
from sciagent.domain.answers.evaluation import EvaluatedCampaign
from sciagent.domain.policies import PolicyIdentity
from sciagent.domain.states import CampaignState
from sciagent.errors import UsageError
from sciagent.inputs.settings import user
from sciagent.store.database.ledger import Ledger
from sciagent.training.evaluation.measuring import measure
from sciagent.training.evaluation.planning import PlannedCampaign
from sciagent.training.evaluation.spec import SCRIPTED
from sciagent.training.rollouts.scripted import ScriptedPolicy

ENDED = (CampaignState.FINISHED, CampaignState.BUDGET_SPENT)


class CampaignRuns:
    """The campaigns that one process runs. `stop` may be called from any thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: tuple[str, KeptPolicy] | None = None
        self._driver: Driver | None = None
        self._is_stopped = False

    def run(self, planned: PlannedCampaign) -> EvaluatedCampaign | None:
        """Runs a campaign to its end, or reads the figures of one that has ended; returns None if it was stopped.

        Raises SciagentError.
        """
        if self._is_stopped:
            return None
        spec = parse_spec(planned.text, f"{planned.arm} on {planned.task}", planned.base)
        built, _ = create_or_open(self._ledger, spec, planned.text, user())
        if not built.row.has_limits:
            raise UsageError(f"{planned.task} has no hits: no objective of it has limits")
        if built.row.state not in ENDED and self._drive(built) not in ENDED:
            return None
        with self._ledger.read() as connection:
            return measure(connection, built, planned)

    def _drive(self, built: Built) -> CampaignState:
        driver = self._driver = Driver(built, source=partial(source_of, start=self._start))
        try:
            with driver:
                if self._is_stopped:
                    driver.request_stop()
                return driver.run()
        finally:
            self._driver = None

    def stop(self, now: bool = False) -> None:
        """Stops the campaign that runs; it goes on in the next run. now: jobs that run are ended, too."""
        self._is_stopped = True
        if (driver := self._driver) is not None:
            if now:
                driver.abort()
            else:
                driver.request_stop()

    def close(self) -> None:
        """Frees the model."""
        if self._kept is not None:
            self._kept[1].end()
            self._kept = None

    def _start(self, spec: LlmSpec) -> PolicyClient:
        """Returns the model of an arm. A model of this machine is loaded once and kept until another one is asked."""
        if spec.endpoint is not None:
            return start_policy(spec)
        if spec.model == SCRIPTED:
            return OneByOne(ScriptedPolicy())
        if self._kept is None or self._kept[0] != spec.model:
            self.close()
            self._kept = spec.model, KeptPolicy(start_policy(spec))
        return self._kept[1]


class KeptPolicy:
    """A model that outlives the campaign that asks it."""

    def __init__(self, policy: PolicyClient) -> None:
        self._policy, self.name = policy, policy.name

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        return self._policy.sample(messages, tools, sampling)

    def identity(self, served: str) -> PolicyIdentity:
        return self._policy.identity(served)

    def close(self) -> None:
        """Does nothing: the next campaign asks the same model."""

    def end(self) -> None:
        """Closes the model."""
        self._policy.close()


class OneByOne:
    """A policy that answers many questions at once, as a client that is asked one."""

    def __init__(self, policy: BatchPolicy) -> None:
        self._policy, self.name = policy, policy.name

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        [answer] = self._policy.answers([EpisodeQuestion(messages, tools, sampling)])
        if isinstance(answer, PolicyError):
            raise answer
        return answer

    def identity(self, served: str) -> PolicyIdentity:
        return self._policy.identity(served)

    def close(self) -> None:
        self._policy.close()


def fault_of(error: Exception) -> str:
    """Returns an error in one line."""
    return " ".join(str(error).split()) or repr(error)
