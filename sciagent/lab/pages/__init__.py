"""The web pages of the laboratory: lists of tasks, forms, sheets, and what instruments post."""
