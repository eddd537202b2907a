"""The web pages of the laboratory: lists of tasks, forms, sheets, and what instruments post."""

from __future__ import annotations

from sciagent.lab.pages import form, instrument_routes, sheets, tasks
from sciagent.web.app import Feature

FEATURE = Feature((tasks.pages, instrument_routes.pages, form.pages, sheets.pages))
