"""The schedulers of a campaign file: rules that decide which rung to run on which candidate."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sciagent.campaign.file.goals import NAME, Part


class LawSpec(Part):
    """The evidence from which the law starts."""

    source: str = Field(
        alias="from", pattern=NAME, description="A campaign of this ledger whose evidence the law learns from."
    )


class PricedSpec(Part):
    """Buys evidence where it is worth most per unit of cost, by a law that learns how well each rung predicts the
    next."""

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


class ThresholdsSpec(Part):
    """A candidate goes on to the next rung if it passes the gate of the last one."""

    kind: Literal["thresholds"] = Field(description="Promote by gates.")


class ExhaustiveSpec(Part):
    """Runs every rung on every candidate, in order of arrival."""

    kind: Literal["exhaustive"] = Field(description="Run everything, in order of arrival.")


class RandomSpec(Part):
    """Runs the next rung of an open candidate drawn at random, with the campaign's seed."""

    kind: Literal["random"] = Field(description="Draw at random: the baseline.")


class HalvingSpec(Part):
    """The best 1/eta of the candidates that a paid rung has answered go on to the next one, asynchronously."""

    kind: Literal["halving"] = Field(description="The best 1/eta of each paid rung go on.")
    eta: Annotated[float, Field(strict=True, gt=1, le=1000)] = Field(
        3.0, description="One in eta candidates goes on to the next paid rung."
    )


class BestRungSpec(Part):
    """One paid rung ranks all candidates, and the best go straight to the terminal rung."""

    kind: Literal["best_rung"] = Field(description="Rank by one rung, then run the terminal one.")
    rung: str | None = Field(
        None,
        description="Label of the paid rung that ranks; default: the last one before the terminal. Paid rungs other "
        "than this one and the terminal one are not run.",
    )


class LotterySpec(Part):
    """The terminal rung runs on each candidate with the same chance, whatever the rungs below said."""

    kind: Literal["lottery"] = Field(description="Draw for the terminal rung with a known chance.")
    chance: Annotated[float, Field(strict=True, ge=0.01, le=1)] = Field(
        0.2, description="Chance of a candidate that passes the gates below to be verified."
    )


SchedulerSpec = Annotated[
    PricedSpec | ThresholdsSpec | ExhaustiveSpec | RandomSpec | HalvingSpec | BestRungSpec | LotterySpec,
    Field(discriminator="kind"),
]
