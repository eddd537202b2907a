"""The web pages of the laboratory: lists of tasks, forms, sheets, and what instruments post."""

from __future__ import annotations

from sciagent.lab.pages import (
    csv_answer_sheets_and_vial_labels,
    instrument_routes,
    task_pages,
    typed_form_and_attachments,
)
from sciagent.web.app import Feature

FEATURE = Feature(
    (
        task_pages.pages,
        instrument_routes.pages,
        typed_form_and_attachments.pages,
        csv_answer_sheets_and_vial_labels.pages,
    )
)
