"""`sciagent init DIR`: a folder with a campaign that runs at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from sciagent.api.terminal import records_table, show
from sciagent.cli.shared.common import JsonOption, put, put_json, say
from sciagent.errors import UsageError


def init(
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="The folder to make.")] = None,
    template: Annotated[str, typer.Option("--template", "-t", help="A ready campaign; see --list.")] = "quickstart",
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="What the campaign is called; default: as the template.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the templates, and write nothing.")] = False,
    json: JsonOption = False,
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
    made = templates.write(folder, template, name)
    load_spec(made[0])  # what was written can be run
    if json:
        put_json({"folder": str(folder), "template": template, "files": [str(path) for path in made]})
        return
    for path in made:
        put(str(path))
    say(f"run it: cd {folder} && sciagent run {made[0].name}")
