"""`sciagent schema`: the JSON schema of a campaign file, for editors, or every key as Markdown, for people."""

from __future__ import annotations

from typing import Annotated

import typer

from sciagent.cli.shared.common import put, put_json


def register(app: typer.Typer) -> None:
    app.command("schema", epilog="Example: sciagent schema > campaign.schema.json")(schema)


def schema(
    markdown: Annotated[bool, typer.Option("--markdown", help="Every key, verifier and property as Markdown.")] = False,
) -> None:
    """Print the JSON schema of a campaign file; editors complete and check YAML with it."""
    from sciagent.campaign.spec.load import campaign_schema
    from sciagent.campaign.spec.reference import reference

    if markdown:
        put(reference().rstrip())
    else:
        put_json(campaign_schema())
