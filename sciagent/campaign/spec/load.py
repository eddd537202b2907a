"""Reads a campaign file. All mistakes are reported together, one per line: `file:line:col: path: fault`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaValue

from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.checks import check_together, draft
from sciagent.campaign.file.rungs import find_verifier
from sciagent.errors import did_you_mean
from sciagent.inputs.document import Loc, read, read_text, show
from sciagent.inputs.validation import keys_at, unknown_key, validated


def load_spec(path: Path) -> CampaignSpec:
    """Reads the campaign in a YAML file. Relative paths start at its folder. Raises SpecError."""
    return parse_spec(read_text(path), str(path), path.resolve().parent)


def parse_spec(
    text: str, name: str = "campaign.yaml", base: Path | None = None, *, candidates: bool = True
) -> CampaignSpec:
    """Reads the campaign in a YAML text. Raises SpecError.

    name: file name for messages. base: folder where relative paths start; None: the working directory. candidates:
    whether the proposer's files must exist; False: no proposer will run, and the hash of the spec differs.
    """
    folder = Path.cwd() if base is None else base
    context = {"base": folder, "candidates": candidates}
    return validated(
        read(text),
        name,
        CampaignSpec,
        context=context,
        unknown=_unknown_key,
        further=lambda data: check_together(draft(data, folder)),
    )


def campaign_schema() -> JsonSchemaValue:
    """Returns the JSON schema of the campaign file."""
    schema = CampaignSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "sciagent campaign"}


def _unknown_key(loc: Loc, data: Any, root: type[BaseModel]) -> tuple[str, str]:
    """Returns message and hint for an unknown key. Keys below `settings` are those of the verifier."""
    if loc[0] != "ladder" or loc[2:3] != ("settings",) or len(loc) == 3:
        return unknown_key(loc, data, root)
    rung = data["ladder"][loc[1]]
    verifier = find_verifier(rung.get("verifier"))
    known = keys_at(loc[3:-1], rung["settings"], verifier.Settings) if verifier else []
    takes = f'verifier "{rung.get("verifier")}" takes' if len(loc) == 4 else f"{show(loc[2:-1])} takes"
    hint = f"{takes}: {', '.join(known) or 'no settings'}" if known or len(loc) == 4 else ""
    return f"unknown setting{did_you_mean(str(loc[-1]), known)}", hint
