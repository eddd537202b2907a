"""`sciagent init` and `sciagent schema`: make a folder with a ready campaign, and print JSON schemas."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sciagent.api.terminal import records_table, show
from sciagent.cli.shared import options
from sciagent.cli.shared.common import put, put_json, say
from sciagent.errors import UsageError


class SchemaOf(StrEnum):
    """The files and answers with a JSON schema: the campaign file, and the output of commands with --json."""

    CAMPAIGN = "campaign"
    STATUS = "status"
    BEST = "best"
    PLAN = "plan"
    AUDIT = "audit"
    COMPARE = "compare"
    EXPLAIN = "explain"


def init(
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="The folder to make.")] = None,
    template: Annotated[str, typer.Option("--template", "-t", help="A ready campaign; see --list.")] = "quickstart",
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="What the campaign is called; default: as the template.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the templates, and write nothing.")] = False,
    json: options.Json = False,
) -> None:
    """Write a campaign folder that runs at once: the YAML with its comments, the seeds, a README."""
    from sciagent.campaign.spec import templates
    from sciagent.campaign.spec.goals import NAME
    from sciagent.campaign.spec.load import load_spec

    if list_:
        known = [{"name": each.name, "description": each.description} for each in templates.templates().values()]
        put_json(known) if json else show(records_table(known, ""))
        return
    if folder is None:
        raise UsageError("name the folder to make: sciagent init DIR, or see the templates: sciagent init --list")
    if name is not None and not re.fullmatch(NAME, name):
        raise UsageError(f'--name "{name}": 1 to 64 of a-z, 0-9, "_" and "-", the first a letter or digit')
    paths = templates.write(folder, template, name)
    load_spec(paths[0])  # checks that the written campaign is valid
    if json:
        put_json({"folder": str(folder), "template": template, "files": [str(path) for path in paths]})
        return
    for path in paths:
        put(str(path))
    say(f"run it: cd {folder} && sciagent run {paths[0].name}")


def schema(
    of: Annotated[
        SchemaOf, typer.Argument(metavar="WHAT", help=f"The campaign file, or an answer: {', '.join(SchemaOf)}.")
    ] = SchemaOf.CAMPAIGN,
    markdown: Annotated[bool, typer.Option("--markdown", help="Every key, verifier and property as Markdown.")] = False,
) -> None:
    """Print the JSON schema of a campaign file, or of what a command prints with --json.

    Editors complete and check YAML with the first; scripts check answers with the others.
    """
    if markdown:
        from sciagent.campaign.spec.reference import reference

        put(reference().rstrip())
    elif of is SchemaOf.CAMPAIGN:
        from sciagent.campaign.spec.load import campaign_schema

        put_json(campaign_schema())
    else:
        from sciagent.domain.answers.model import json_schema

        put_json(json_schema(_answer(of)))


def _answer(of: SchemaOf) -> Any:
    from sciagent.domain.answers.comparison import Comparison
    from sciagent.domain.answers.explanation import Explanation, RefusedText
    from sciagent.domain.answers.plan import Plan
    from sciagent.domain.answers.status import AuditReport, Status
    from sciagent.domain.answers.values import BestCandidate

    answers: dict[SchemaOf, Any] = {
        SchemaOf.STATUS: Status,
        SchemaOf.BEST: list[BestCandidate],
        SchemaOf.PLAN: Plan,
        SchemaOf.AUDIT: AuditReport,
        SchemaOf.COMPARE: Comparison,
        SchemaOf.EXPLAIN: Explanation | RefusedText,
    }
    return answers[of]
