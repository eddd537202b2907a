"""Wording, drawings, charts and tables that reports share."""
