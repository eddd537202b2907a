"""`expert.review`: a question, its grades, and what they count."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.lab_messages_and_codes import LabAnswer
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import UsageError
from sciagent_verifiers.world.expert_review import ExpertReview, ExpertReviewSettings

PHENOL = parse_molecule("Oc1ccccc1")
QUESTION = "can we make 50 mg of it in a week?"


def review(**settings: object) -> ExpertReview:
    return ExpertReview(ExpertReviewSettings(question=QUESTION, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(("grade", "value"), [("no", 0.0), ("hardly", 0.25), ("perhaps", 0.5), ("yes", 1.0)])
def test_grades_count_in_equal_steps(grade: str, value: float) -> None:
    [measured] = review().read(PHENOL, LabAnswer(grades={"expert_grade": grade})).measured
    assert (measured.quantity.value, measured.quantity.unit, measured.property) == (value, "1", "expert_grade")
    assert measured.quantity.uncertainty == pytest.approx(0.25 / 12**0.5)
    assert measured.level.label == f"expert review, {QUESTION}"


def test_what_is_no_grade_is_refused() -> None:
    with pytest.raises(UsageError, match='"yess" is no grade'):
        review().read(PHENOL, LabAnswer(grades={"expert_grade": "yess"}))
    with pytest.raises(UsageError, match="no grade was given; one of: no, hardly"):
        review().read(PHENOL, LabAnswer())
    with pytest.raises(UsageError, match="gives the task back"):
        review().read(PHENOL, LabAnswer(not_obtained=Reason.IMPURE))


def test_grades_differ_and_the_question_is_part_of_the_identity() -> None:
    with pytest.raises(ValidationError, match="a grade is named twice"):
        review(grades=("yes", "yes"))
    other = ExpertReview(ExpertReviewSettings(question="is it safe to handle?"))
    assert review().settings_hash != other.settings_hash
    [asked] = review().form(PHENOL).asks
    assert asked.grades == ("no", "hardly", "perhaps", "probably", "yes") and review().form(PHENOL).question == QUESTION
