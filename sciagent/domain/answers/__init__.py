"""What people ask of a campaign, as frozen models: made once, shown by the CLI, Python, the report and MCP alike.

Each model is a JSON contract of `docs/cli.md`: fields are added, never changed. `sciagent schema status` prints its
JSON schema.
"""
