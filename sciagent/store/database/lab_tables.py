"""The tables of the laboratory: samples, tasks for people, and what people answered."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer

from sciagent.store.database.column_types import Id, Json, String, Text, UtcDateTime
from sciagent.store.database.table_parts import index_of_some, keyed, needed, optional, reference, references, table

APPEND_ONLY = ("submission",)

# a vial: some amount of a candidate in one form, from one batch
sample = table(
    "sample",
    needed(String(16), "code", unique=True),
    references("candidate", index=True),
    reference("parent_id", "sample", nullable=True),  # the sample that it was taken from
    needed(String(200), "form"),  # "free base", "HCl, 1 H2O"
    needed(String(20), "source"),  # made, bought or given
    optional(String(100), "lot"),
    optional(sa.Double, "amount"),
    optional(String(20), "amount_unit"),
    optional(sa.Double, "purity"),  # mass fraction, 0 to 1
    optional(String(200), "purity_how", "made_by", "place"),
    optional(sa.Date, "made_on"),
    needed(String(20), "state"),  # ok, empty or bad
    needed(String(200), "who"),
    needed(UtcDateTime, "created_at"),
)

# the part of a job that only work of people has; version: grows with each change, so that two people see each other
lab_task = keyed(
    "lab_task",
    Column("job_id", Id, ForeignKey("job.id"), primary_key=True, autoincrement=False),
    needed(Integer, "version", default=0),
    optional(String(60), "plate"),
    optional(String(10), "well"),
    optional(UtcDateTime, "due_at", "approved_at"),
    reference("assigned_to", "person", nullable=True),
    optional(String(200), "approved_by"),
    references("sample", nullable=True),
    reference("in_review_id", "submission", nullable=True),  # the answer that waits for a second person
    optional(Text, "note"),
    Index("ix_lab_task_sample", "sample_id"),
    Index("ix_lab_task_due", "due_at"),
)
_in_review = lab_task.c.in_review_id.is_not(None)
index_of_some("ix_lab_task_in_review", _in_review, lab_task.c.in_review_id)

# the original record of what a person entered; evidence is made from it
submission = table(
    "submission",
    needed(String(64), "key", unique=True),  # made by the sender, so that a second sending writes nothing
    references("job"),
    needed(Integer, "fence", "revision"),
    needed(String(20), "kind"),  # result, not_obtained, returned, reviewed or sent_back
    reference("of_id", "submission", nullable=True),  # what it corrects or reviews
    references("person", "access", "sample", nullable=True),
    needed(String(200), "who"),
    needed(Json, "said", "files"),
    optional(Text, "why"),
    references("evidence", nullable=True),
    needed(UtcDateTime, "at"),
    Index("ix_submission_job", "job_id", "id"),
)
