"""The web pages of the laboratory: lists of tasks, forms, sheets, and the HTTP API for instruments."""

from __future__ import annotations

from sciagent.lab.pages import (
    api_of_tasks_results_and_vials,
    csv_answer_sheets_and_vial_labels,
    task_list_page,
    task_pages,
    typed_form_and_attachments,
)
from sciagent.web.app import Feature

FEATURE = Feature(
    (
        task_list_page.pages,
        task_pages.pages,
        api_of_tasks_results_and_vials.pages,
        typed_form_and_attachments.pages,
        csv_answer_sheets_and_vial_labels.pages,
    )
)
