"""The facts of a training step that guards check, as numbers. A run keeps them, so that it can go on after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EpisodeFacts(_Facts):
    """An episode of the run, as far as the ladder has answered."""

    episode: int
    """Id of the trajectory."""
    policy: int
    """Number of steps after which its policy stood: 0 for the model at the start."""
    gap: float | None = None
    """Mean over the candidates that the control has answered: payoff less the control's score, from -1 to 1."""
    promise: float | None = None
    """Mean over the candidates with a lot: what the law promises and the lot does not find, weighted by the chances.
    None while one of them waits."""
    least_promise: float = -1.0
    """Smallest value that the chances of the lots allow for `promise`."""
    earned: float = 0.0
    """Payoff of the episode's candidates, in hits or utility, as it was rewarded."""
    unsettled: float = 0.0
    """The part of `earned` that the terminal rung has not confirmed."""


class StepFacts(_Facts):
    """The facts of a step."""

    step: int
    """From 1."""
    kl: float | None = None
    """Mean divergence from the model at the start, in nats per token; None if the run does not compute it."""
    rewards: str = ""
    """The description of the rewards and the law behind them; a new text begins a new KL budget."""
    has_control: bool = False
    """Whether a campaign of the run has a control."""
    has_promises: bool = False
    """Whether rewards rest on a law, and a lot verifies some of the candidates."""
    episodes: tuple[EpisodeFacts, ...] = ()
    """Those of the step, and earlier ones again for which the ladder has answered since."""

    def to_json(self) -> Mapping[str, Any]:
        return self.model_dump(mode="json")
