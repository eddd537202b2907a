"""Review and signature: a second person decides whether an answer becomes evidence."""

from __future__ import annotations

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.people import Actor
from sciagent.errors import AnswerChangedError, AnsweredMeanwhileError, UsageError
from sciagent.lab import claims_costs_and_vials, record_answers, review_and_sign_answers
from sciagent.lab.displayed_lab_tasks_claims_and_samples import TaskReader
from sciagent.store.lab import submissions, tasks
from sciagent.store.people import audit, persons
from tests.lab.conftest import Make
from tests.lab.test_record_answers import entry, place, task_ids

REVIEW = "{ahead: 3, review: true}"


def waiting(built: Built, task_id: int) -> int:
    """The number of the answer that waits, as its reviewer reads it."""
    with built.ledger.read() as connection:
        task = tasks.find(connection, task_id)
    assert task is not None and task.in_review_id is not None
    return task.in_review_id


def test_what_is_accepted_is_what_was_read(make: Make) -> None:
    built = make(lab=REVIEW)
    first = task_ids(built)[0]
    record_answers.enter(built, first, entry("4.31 eV"))
    read = waiting(built, first)
    record_answers.enter(built, first, entry("5.90 eV"))
    change = (
        f'task {first} was changed since you read it, from "homo_lumo_gap 4.31 eV" by anna to "homo_lumo_gap 5.90 eV"'
    )
    with pytest.raises(AnswerChangedError, match=change):
        review_and_sign_answers.accept(built, first, "ben", read)
    with pytest.raises(AnswerChangedError, match=change):
        review_and_sign_answers.send_back(built, first, "ben", "which lamp?", read)
    with pytest.raises(AnswerChangedError, match="read it before you decide"):
        review_and_sign_answers.accept(built, first, "ben", 0)
    assert place(built, first)[0] == "pending"
    review_and_sign_answers.accept(built, first, "ben", waiting(built, first))
    assert place(built, first) == ("settled", "fail", False)


def test_an_answer_waits_for_another_person(make: Make) -> None:
    built = make(lab=REVIEW)
    first = task_ids(built)[0]
    done = record_answers.enter(built, first, entry("4.31 eV"))
    assert (done.in_review, done.evidence_key, place(built, first)[0]) == (True, "", "pending")
    with built.ledger.read() as connection:
        [shown] = TaskReader(built.ledger).shown(connection, [task for task in [tasks.find(connection, first)] if task])
    assert shown.state == "in_review"
    with pytest.raises(UsageError, match="cannot be given back"):
        claims_costs_and_vials.release(built, first, "anna", "the vial broke")
    with pytest.raises(UsageError, match="another person reviews it"):
        review_and_sign_answers.accept(built, first, "anna", waiting(built, first))
    review_and_sign_answers.send_back(built, first, "ben", "the unit looks wrong")
    with pytest.raises(UsageError, match="no answer of task"):
        review_and_sign_answers.accept(built, first, "ben", 1)
    record_answers.enter(built, first, entry("4.20 eV"))
    accepted = review_and_sign_answers.accept(built, first, "ben", waiting(built, first))
    assert (accepted.revision, place(built, first)) == (0, ("settled", "pass", True))
    with built.ledger.read() as connection:
        kinds = [each.kind for each in submissions.of_job(connection, first)]
        whats = [each.what for each in audit.entries(connection) if each.object == "submission"]
    assert kinds == ["result", "sent_back", "result", "reviewed"]
    assert whats == ["entered for review", "sent back", "entered for review", "accepted"]


def test_a_correction_is_reviewed_too(make: Make) -> None:
    built = make(lab=REVIEW)
    first = task_ids(built)[0]
    record_answers.enter(built, first, entry("4.31 eV"))
    review_and_sign_answers.accept(built, first, "ben", waiting(built, first))
    correction = record_answers.enter(built, first, entry("5.9 eV", why="wrong lamp"))
    assert correction.in_review and place(built, first) == ("settled", "pass", True), (
        "nothing provisional moves a verdict"
    )
    assert review_and_sign_answers.accept(built, first, "ben", waiting(built, first)).revision == 1
    assert place(built, first) == ("settled", "fail", False)


def test_a_signature_names_what_is_signed(make: Make) -> None:
    built = make()
    first = task_ids(built)[0]
    with built.ledger.begin() as connection:
        anna = Actor("anna", persons.add(connection, "root", "anna", "Anna Berg").id)
    record_answers.enter(built, first, entry("4.31 eV", who=anna))
    with built.ledger.read() as connection:
        [submission] = submissions.of_job(connection, first)
    assert submission.person_id == anna.person_id
    review_and_sign_answers.sign(built, first, anna, "Anna Berg", "measured", submission.id)
    record_answers.enter(built, first, entry("4.13 eV", who=anna, why="digits were swapped"))
    with pytest.raises(UsageError, match="changed since you read it"):
        review_and_sign_answers.sign(built, first, anna, "Anna Berg", "measured", submission.id)
    with built.ledger.read() as connection:
        [signed] = [each for each in audit.entries(connection) if each.what == "signed"]
        assert signed.payload["submission_sha256"] == audit.submission_digest(connection, submission.id)
        assert (signed.payload["name"], signed.payload["meaning"], signed.object_id) == ("Anna Berg", "measured", 1)


def test_who_types_while_another_answers_is_told(make: Make) -> None:
    built = make()
    first = task_ids(built)[0]
    record_answers.enter(built, first, entry("4.31 eV", seen=0))
    with pytest.raises(AnsweredMeanwhileError, match="was answered by anna while you were typing"):
        record_answers.enter(built, first, entry("4.42 eV", who="ben", why="mine is better", seen=0))
    with built.ledger.read() as connection:
        assert len(submissions.of_job(connection, first)) == 1
