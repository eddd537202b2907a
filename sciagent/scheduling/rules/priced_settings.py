"""Settings of the scheduler `priced`. They are apart from it, since its law takes a second to import."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sciagent.inputs.yaml_validation import NAME, Part
from sciagent.scheduling.rules.rule_and_settings_bases import PaidLadder, RungRule, SchedulerSpec
from sciagent.scheduling.rules.thresholds import Thresholds


class LawSpec(Part):
    """The evidence from which the law starts."""

    source: str = Field(
        alias="from", pattern=NAME, description="A campaign of this ledger whose evidence the law learns from."
    )


class PricedSpec(SchedulerSpec):
    """Buys evidence where it is worth most per unit of cost, by a law that learns how well each rung predicts the
    next."""

    may_skip = True

    kind: Literal["priced"] = Field(description="Buy evidence where it is worth most; the default.")
    law: LawSpec | None = Field(None, description="Where the law starts; default: without evidence.")
    audit: Annotated[
        float,
        Field(
            strict=True,
            ge=0,
            le=0.5,
            description="Share of the spend for verifying passed-over candidates, drawn with known propensities, to "
            "estimate what was missed. 0: none.",
        ),
    ] = 0.05

    def rule(self, ladder: PaidLadder) -> RungRule:
        """Returns the rule of a campaign in which no paid rung leads to an objective, so that nothing has a price."""
        return Thresholds()
