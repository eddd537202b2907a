"""Reads a campaign file. All mistakes are reported together, one per line: `file:line:col: path: what is wrong`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.json_schema import JsonSchemaValue

from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.campaign.spec.checks import check_together, draft
from sciagent.campaign.spec.mistakes import explain
from sciagent.errors import SpecError
from sciagent.yaml.faults import Faults
from sciagent.yaml.files import text_of
from sciagent.yaml.mistakes import is_echo, report
from sciagent.yaml.positions import MAX_FAULTS, Document, Fault, read

__all__ = ["campaign_schema", "load_spec", "parse_spec"]


def load_spec(path: Path) -> CampaignSpec:
    """Read the campaign in a YAML file. Relative paths start at its folder. Raises SpecError."""
    return parse_spec(text_of(path), str(path), path.resolve().parent)


def parse_spec(
    text: str, name: str = "campaign.yaml", base: Path | None = None, *, candidates: bool = True
) -> CampaignSpec:
    """Read the campaign in a YAML text. Raises SpecError.

    name: the file name used in messages. base: where relative paths start, by default the working directory.
    candidates: False if no proposer will run and its files need not exist; the hash of such a spec differs.
    """
    document = read(text)
    if not isinstance(document.data, dict):
        raise SpecError(report(name, document.faults))
    folder = Path.cwd() if base is None else base
    context = {"base": folder, "candidates": candidates}
    spec, faults = None, list(document.faults)
    try:
        spec = CampaignSpec.model_validate(document.data, context=context)
    except ValidationError as error:
        faults += _explain_all(error, document, folder)
    if spec is None or faults:
        raise SpecError(report(name, faults))
    return spec


def campaign_schema() -> JsonSchemaValue:
    """JSON schema of the YAML file."""
    schema = CampaignSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "sciagent campaign"}


def _explain_all(error: ValidationError, document: Document, base: Path) -> list[Fault]:
    errors: list[Any] = list(error.errors(include_url=False))
    together = Faults()
    check_together(draft(document.data, base), together)  # did not run if a part is wrong by itself
    try:
        together.raise_any()
    except ValidationError as more:
        errors += more.errors(include_url=False)
    faults = [explain(mistake, document) for mistake in errors[:MAX_FAULTS] if not is_echo(mistake)]
    return [fault for fault in faults if not document.broken(fault.loc)]
