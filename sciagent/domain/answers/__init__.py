"""Answers to questions about a campaign, as frozen models that the CLI, Python, the report and MCP all show.

Each model is a JSON contract of `docs/cli.md`: fields are added, never changed. `sciagent schema status` prints its
JSON schema.
"""
