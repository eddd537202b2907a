"""`sciagent init` and `sciagent schema`: make a folder with a ready campaign, and print JSON schemas."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from sciagent.api.terminal import Line, records_table
from sciagent.cli import options
from sciagent.cli.shared import put, put_answer, put_json
from sciagent.errors import UsageError


class SchemaOf(StrEnum):
    """The files and answers with a JSON schema: campaign and recipe files, and the output of commands with --json."""

    CAMPAIGN = "campaign"
    RECIPE = "recipe"
    STATUS = "status"
    BEST = "best"
    PLAN = "plan"
    AUDIT = "audit"
    COMPARE = "compare"
    EXPLAIN = "explain"
    CALC = "calc"


NAMES = ", ".join(SchemaOf)


def init(
    folder: Path | None = typer.Argument(None, metavar="DIR", help="The folder to make."),
    template: str = typer.Option("quickstart", "--template", "-t", help="A ready campaign; see --list."),
    name: str | None = typer.Option(None, "--name", "-n", help="Name of the campaign; default: as the template."),
    list_: bool = typer.Option(False, "--list", help="Show the templates, and write nothing."),
    json: options.Json = False,
) -> None:
    """Write a campaign folder that runs at once: the YAML with its comments, the seeds, a README."""
    from sciagent.campaign.file.goals import NAME
    from sciagent.campaign.spec.load import load_spec
    from sciagent.cli.campaigns import templates

    if list_:
        known = [{"name": each.name, "description": each.description} for each in templates.templates().values()]
        put_answer(known, json, [records_table(known, "")])
        return
    if folder is None:
        raise UsageError("name the folder to make: sciagent init DIR, or see the templates: sciagent init --list")
    if name is not None and not re.fullmatch(NAME, name):
        raise UsageError(f'--name "{name}": 1 to 64 of a-z, 0-9, "_" and "-", the first a letter or digit')
    paths = templates.write(folder, template, name)
    load_spec(paths[0])  # checks that the written campaign is valid
    files = [str(path) for path in paths]
    note = f"run it: cd {folder} && sciagent run {paths[0].name}"
    put_answer({"folder": str(folder), "template": template, "files": files}, json, map(Line, files), note)


def schema(
    of: SchemaOf = typer.Argument(SchemaOf.CAMPAIGN, metavar="WHAT", help=f"Of what: {NAMES}."),
    markdown: bool = typer.Option(False, "--markdown", help="Every key, verifier and property as Markdown."),
) -> None:
    """Print the JSON schema of a campaign or recipe file, or of what a command prints with --json.

    Editors complete and check YAML with the first two; scripts check answers with the others.
    """
    if markdown:
        from sciagent.campaign.file.reference import reference

        put(reference().rstrip())
    elif of is SchemaOf.CAMPAIGN:
        from sciagent.campaign.spec.load import campaign_schema

        put_json(campaign_schema())
    elif of is SchemaOf.RECIPE:
        from sciagent.training.recipes.spec import recipe_schema

        put_json(recipe_schema())
    else:
        from sciagent.domain.answers import comparison, explanation, model, plan, status, values

        answers: dict[SchemaOf, Any] = {
            SchemaOf.STATUS: status.Status,
            SchemaOf.BEST: list[values.BestCandidate],
            SchemaOf.PLAN: plan.Plan,
            SchemaOf.AUDIT: status.AuditReport,
            SchemaOf.COMPARE: comparison.Comparison,
            SchemaOf.EXPLAIN: explanation.Explanation | explanation.RefusedText,
            SchemaOf.CALC: list[values.CalculatedCandidate],
        }
        put_json(model.json_schema(answers[of]))
