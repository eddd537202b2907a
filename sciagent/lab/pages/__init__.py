"""The web pages of the laboratory: lists of tasks, forms, sheets, and what instruments post."""

from __future__ import annotations

from sciagent.lab.pages import answer_form_and_attachments, instrument_routes, sheets_and_labels, task_pages
from sciagent.web.app import Feature

FEATURE = Feature(
    (task_pages.pages, instrument_routes.pages, answer_form_and_attachments.pages, sheets_and_labels.pages)
)
