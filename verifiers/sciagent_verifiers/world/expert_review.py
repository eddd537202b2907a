"""The verifier `expert.review`: a question about a molecule, which an expert answers with a grade."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated

from pydantic import Field, field_validator

from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.lab_messages_and_codes import AskedQuantity, LabAnswer, LabForm
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.properties_and_levels import Level, Property, PropertyAtLevel, at, properties
from sciagent.domain.quantities import Quantity
from sciagent.errors import UsageError, did_you_mean
from sciagent.verification.verifier_contract import ANY_KIND, Finding, Settings, WorldVerifier

GRADE = "expert_grade"
Grade = Annotated[str, Field(min_length=1, max_length=60)]


class ExpertReviewSettings(Settings):
    """A question and its grades."""

    question: str = Field(min_length=5, max_length=1000, description="The question, such as: can we make it in a week?")
    grades: tuple[Grade, ...] = Field(
        ("no", "hardly", "perhaps", "probably", "yes"),
        min_length=2,
        max_length=10,
        description="The answers, from the worst to the best; they count 0 to 1 in equal steps.",
    )

    @field_validator("grades")
    @classmethod
    def _different(cls, grades: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(grades)) < len(grades):
            raise ValueError("a grade is named twice")
        return grades


class ExpertReview(WorldVerifier[Candidate]):
    """The word of an expert as a grade between 0 and 1. The level is the question."""

    name = "expert.review"
    version = "1"
    kind = ANY_KIND
    Settings = ExpertReviewSettings
    settings: ExpertReviewSettings

    @cached_property
    def level(self) -> Level:
        """The level of all grades."""
        return Level("expert review", conditions=self.settings.question)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, self._grade)

    @property
    def _grade(self) -> Property:
        return properties()[GRADE]

    def form(self, candidate: Candidate) -> LabForm:
        settings = self.settings
        asked = AskedQuantity(self._grade, units=self._grade.units, grades=settings.grades)
        return LabForm((asked,), method="expert review", question=settings.question)

    def read(self, candidate: Candidate, answer: LabAnswer) -> Finding:
        if answer.not_obtained is not None:
            raise UsageError("an expert gives a grade; who cannot judge the molecule gives the task back")
        grades = self.settings.grades
        grade = answer.grades.get(GRADE)
        if grade not in grades:
            given = "no grade was given" if grade is None else f'"{grade}" is no grade{did_you_mean(grade, grades)}'
            raise UsageError(f"{GRADE}: {given}; one of: {', '.join(grades)}")
        step = 1 / (len(grades) - 1)
        uncertainty = step / math.sqrt(12)  # of the resolution, JCGM 100, F.2.2.1
        value = Quantity(grades.index(grade) * step, "1", uncertainty)
        return Finding(candidate.key, Outcome.OK, (Measured(GRADE, self.level, value),))
