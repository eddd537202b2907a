"""The key `lab` of a rung that people do: its cost, how many tasks are open, deadline, approval and review."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sciagent.campaign.spec.goals import NotNegative, Part
from sciagent.domain.cost import Cost

AHEAD = 6  # open tasks of a rung if neither the file nor a weekly limit says how many


class LabCostSpec(Part):
    """The cost of one measurement."""

    lab_slots: NotNegative = Field(1, description="Slots in the laboratory.")
    person_hours: NotNegative = Field(0, description="Working time of people, in hours.")
    money: NotNegative = Field(0, description="Money, in EUR.")

    def total(self) -> Cost:
        """Returns the cost of one measurement."""
        return Cost(lab_slots=self.lab_slots, person_hours=self.person_hours, money=self.money)


class LabSpec(Part):
    """Work of people for one rung. Nothing here changes a number, so that all of it may be amended."""

    cost: LabCostSpec = Field(
        default_factory=lambda: LabCostSpec.model_validate({}), description="Cost of one measurement."
    )
    ahead: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = Field(
        None,
        description="Largest number of tasks that nobody has claimed; default: those of two weeks by the weekly limit "
        f"of lab_slots, else {AHEAD}.",
    )
    approve: bool = Field(False, strict=True, description="Whether a chemist approves each task before it is listed.")
    review: bool = Field(
        False, strict=True, description="Whether a second person accepts each answer before it becomes evidence."
    )
    due_days: Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=3650)] | None = Field(
        None, description="Days until a task is due; a deadline only reminds."
    )
