"""Read-only queries over several tables, for people and reports."""
