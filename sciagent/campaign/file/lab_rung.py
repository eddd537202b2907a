"""The key `lab` of a rung that people do: cost, tasks that are open, replicates, deadline, approval and review."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from sciagent.campaign.file.objectives_and_budget import NotNegative
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.inputs.yaml_validation import Part

DEFAULT_OPEN_TASKS = 6  # open tasks of a rung if neither the file nor a weekly limit says how many


class LabCostSpec(Part):
    """The cost of one measurement."""

    lab_slots: NotNegative = Field(1, description="Slots in the laboratory.")
    person_hours: NotNegative = Field(0, description="Working time of people, in hours.")
    money: NotNegative = Field(0, description="Money, in EUR.")

    def total(self) -> Cost:
        """Returns the cost of one measurement."""
        return Cost(lab_slots=self.lab_slots, person_hours=self.person_hours, money=self.money)


class LabSpec(Part):
    """Work of people for one rung. None of its keys changes what a measurement means, so all of them may be amended."""

    cost: LabCostSpec = Field(
        default_factory=lambda: LabCostSpec.model_validate({}), description="Cost of one measurement."
    )
    ahead: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = Field(
        None,
        description="Largest number of tasks that nobody has claimed; default: twice the weekly limit of lab_slots; "
        f"{DEFAULT_OPEN_TASKS} without one. At least one candidate is listed, with all its replicates.",
    )
    approve: bool = Field(False, strict=True, description="Whether a chemist approves each task before it is listed.")
    review: bool = Field(
        False, strict=True, description="Whether a second person accepts each answer before it becomes evidence."
    )
    replicates: Annotated[int, Field(strict=True, ge=1, le=20)] = Field(
        1, description="Tasks for each candidate, one measurement each; their values are pooled."
    )
    decide_after: Annotated[int, Field(strict=True, ge=1, le=20)] | None = Field(
        None,
        description="Number of these measurements, by whichever campaign, after which the verdict is made; "
        "default: all.",
    )
    blind: bool = Field(
        False,
        strict=True,
        description="Whether a task hides what is known, and each measurement of a candidate is another person's.",
    )
    due_days: Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=3650)] | None = Field(
        None, description="Days until a task is due; a deadline only reminds."
    )
    units: dict[str, str] = omitted_if_unset(
        default_factory=dict,
        description="Unit in which each quantity is entered first, such as {melting_point: degC}; forms and sheets "
        "begin with it, and take the others, too. A number without a unit is then refused, also for a logarithm.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.decide_after is not None and self.decide_after > self.replicates:
            raise ValueError(f"decide_after = {self.decide_after}, but there are only {self.replicates} replicates")
        return self

    def is_verdict_due(self, answered: int, own: int = 0, still_open: int = 0) -> bool:
        """Whether the verdict on a candidate is made now: enough of its measurements are answered, or no more is to
        come.

        answered: number of its measurements that are answered, by tasks of this campaign or of another one. own,
        still_open: numbers of the campaign's own tasks that are done, and that are not over. With none that is done,
        those that are over went off the list for another reason, and are to be made yet.
        """
        is_last = own > 0 and still_open == 0
        return is_last or answered >= (self.decide_after or self.replicates)
