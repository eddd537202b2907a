"""`sciagent schema`: the JSON schema of a campaign file, for editors."""

from __future__ import annotations

import typer

from sciagent.cli.common import put_json


def register(app: typer.Typer) -> None:
    app.command("schema", epilog="Example: sciagent schema > campaign.schema.json")(schema)


def schema() -> None:
    """Print the JSON schema of a campaign file; editors complete and check YAML with it."""
    from sciagent.campaign.load import campaign_schema

    put_json(campaign_schema())
