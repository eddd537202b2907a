"""Queries over several tables, for people and reports. They write nothing."""
