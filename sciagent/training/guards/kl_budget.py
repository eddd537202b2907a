"""The KL budget: stops a policy that has moved too far from the model at the start under one version of the rewards."""

from __future__ import annotations

from sciagent.training.guards.facts import StepFacts
from sciagent.training.guards.guard import StopReason


class KlBudgetGuard:
    """Counts the divergence that each version of the rewards adds.

    Rewards stand for what is wanted only near the policy whose candidates taught the law and the ladder. New rewards
    begin a new budget.
    """

    name = "kl_budget"

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._rewards: str | None = None
        self._begin = 0.0
        self._last: float | None = None

    def check(self, facts: StepFacts) -> StopReason | None:
        if facts.kl is None:
            return None
        if facts.rewards != self._rewards:
            self._rewards, self._begin = facts.rewards, self._last or 0.0
        self._last = facts.kl
        spent = facts.kl - self._begin
        if spent <= self._limit:
            return None
        since = "the model at the start" if not self._begin else "the last change of the rewards"
        return StopReason(
            self.name,
            f"the policy has moved {spent:.3g} nats per token away since {since}, where {self._limit:g} are allowed",
            spent,
            self._limit,
        )

    @property
    def blind(self) -> str | None:
        return "the run does not compute the divergence from the model at the start" if self._last is None else None
