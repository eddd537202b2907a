"""The description of rewards. It is read from YAML and never changes; each version of rewards keeps its hash."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.evidence import content_hash
from sciagent.errors import did_you_mean
from sciagent.inputs.document import read, read_text
from sciagent.inputs.validation import Faults, fault, validated
from sciagent.rewards.credit import Credit

Unsettled = Literal["settled", "posterior", "robust"]
DecayBy = Literal["scaffold", "ring_system"]
Price = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=1e12)]
Weight = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1, le=1)]
Term = Literal["refused", "empty", "novelty", "diversity", "prediction"]
Scale = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0)]


def _known(prices: Mapping[str, float]) -> Mapping[str, float]:
    for resource in prices:
        if resource not in RESOURCE_UNITS:
            known = ", ".join(RESOURCE_UNITS)
            raise fault(f"unknown resource {resource!r}{did_you_mean(resource, RESOURCE_UNITS)}", f"takes: {known}")
    return prices


class RewardSpec(BaseModel):
    """The rules by which rewards are computed from evidence."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    watermark: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        default=None, description="Evidence up to this watermark counts; left out: all that there is when published."
    )
    law: Annotated[int, Field(strict=True, ge=1)] | None = Field(
        default=None, description="Row of the law that values unsettled candidates; left out: the last one by then."
    )
    prices: Annotated[Mapping[str, Price], AfterValidator(_known)] = Field(
        description="Price of one unit of each resource, in hits or utility. Resources without a price are free."
    )
    unsettled: Unsettled = Field(
        default="posterior",
        description="Worth of a candidate that the terminal rung has not answered: undecided, what the law expects, or "
        "the doubly robust estimate, which needs a known chance of having been verified.",
    )
    unsettled_limit: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = Field(
        default=None,
        exclude_if=lambda limit: limit is None,  # as in descriptions from before this key
        description="Most that the unsettled candidates of an episode add together, in hits or utility, under "
        "posterior; left out: no limit.",
    )
    decay_by: DecayBy = Field(
        default="scaffold",
        exclude_if=lambda value: value == "scaffold",  # as in descriptions from before this key
        description="What candidates share that scaffold_decay counts: the Murcko scaffold, or any ring system. A ring "
        "that hangs on a chain makes another scaffold, but leaves the ring system that was there.",
    )
    scaffold_decay: Annotated[float, Field(strict=True, ge=0, le=4)] = Field(
        default=1.0,
        description="The k-th candidate of a scaffold, or with a ring system, in an episode counts k to the power of "
        "minus this.",
    )
    credit: Credit = Field(default="rtg", description="Estimator of the advantages.")
    terms: Mapping[Term, Weight] = Field(
        default_factory=dict,
        description="Weights of named terms beside the evidence, by name: `refused`, the share of proposals that were "
        "known or no molecules; `novelty`, how unlike the molecules are to those of the group's snapshot; `diversity`, "
        "how unlike to those that the episode proposed before; `empty`, whether an episode proposed nothing; "
        "`prediction`, how well what the model predicted of its own candidates came true.",
    )
    prediction_scales: Mapping[str, Scale] = Field(
        default_factory=dict,
        exclude_if=lambda scales: not scales,  # as in descriptions from before this key
        description="For the term `prediction`: by property, the CRPS at which a prediction earns nothing, in the "
        "property's own unit.",
    )
    terms_limit: Annotated[float, Field(strict=True, ge=0, lt=1)] = Field(
        default=0.2, description="Most that all terms of an episode add or take together, as a share of one hit."
    )

    @model_validator(mode="after")
    def _priced(self) -> RewardSpec:
        with Faults() as faults:
            if not any(self.prices.values()):
                hint = "give core_seconds a price, as in core_seconds: 0.0001 for one hit in 10,000 core-seconds"
                faults.add(("prices",), "no resource has a price, so that waste would cost nothing", hint)
            if self.unsettled_limit is not None and self.unsettled == "robust":
                faults.add(("unsettled_limit",), "a limit would bias unsettled: robust", "leave it out")
            if bool(self.prediction_scales) != bool(self.terms.get("prediction")):
                hint = "as in terms: {prediction: 0.1} and prediction_scales: {homo_lumo_gap: 0.5}"
                faults.add(("prediction_scales",), "the term prediction and its scales need each other", hint)
        return self

    @property
    def hash(self) -> str:
        """SHA-256 of the description."""
        return content_hash(self.model_dump(mode="json"))

    def weight(self, k: int) -> float:
        """Returns the weight of the k-th candidate of a scaffold, k = 1, 2, ..."""
        return float(k**-self.scaffold_decay)


def load_rewards(path: Path) -> RewardSpec:
    """Reads a description of rewards. Raises SpecError, with all mistakes by line."""
    return validated(read(read_text(path)), str(path), RewardSpec)
