"""Generates the reference of all keys of a campaign file and all settings of verifiers, from their models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from sciagent.campaign.file.campaign_spec import campaign_schema
from sciagent.campaign.file.rungs import find_verifier
from sciagent.domain.properties_and_levels import properties
from sciagent.verification.declarations_and_availability import SIGNS, with_limits
from sciagent.verification.verifier_contract import BaseVerifier
from sciagent.verification.verifier_registry import provider, verifier_names

Schema = dict[str, Any]
LIMITS = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt"}
"""pydantic's names of limits, by those of JSON Schema."""

HEAD = """# Every key

Made from the models by `sciagent schema --markdown`: [the campaign file](#the-campaign-file), [the settings of each
verifier](#verifiers), [properties and their units](#properties). Required keys are in bold.
"""


def reference(distribution: str | None = None) -> str:
    """Returns the reference as Markdown.

    distribution: package whose verifiers and properties are shown; None: all installed packages.
    """
    schema = campaign_schema()
    verifiers = []
    for name in verifier_names():
        package, _, _ = provider(name).partition(" ")  # `package version`
        if distribution not in (None, package):
            continue
        verifier = find_verifier(name)
        if verifier is not None:  # `sciagent verifiers` reports those that do not load
            verifiers.append(verifier)
    verifiers.sort(key=lambda verifier: (verifier.tier.order, verifier.name))
    with_table: set[str] = set()  # names of models that have a table; several verifiers may share a model
    tables_of_file = _models(schema, name="CampaignSpec", with_table=with_table)
    parts = [HEAD, "## The campaign file\n", *tables_of_file, "## Verifiers\n"]
    for verifier in verifiers:
        parts += _verifier(verifier, with_table)
    parts += ["## Properties\n", _properties(distribution)]
    return "\n".join(parts).rstrip() + "\n"


def _verifier(verifier: type[BaseVerifier[Any]], with_table: set[str]) -> Iterator[str]:
    """Yields the section on a verifier, with tables of its settings. with_table: as in `_models`."""
    yield f"### `{verifier.name}`\n"
    yield f"{_first_paragraph(verifier.__doc__)}\n"
    yield f"Tier `{verifier.tier}`, version {verifier.version}. {_what_it_measures(verifier)}\n"
    schema = verifier.Settings.model_json_schema()
    yield from _models(schema, name=verifier.name, with_table=with_table)


def _what_it_measures(verifier: type[BaseVerifier[Any]]) -> str:
    try:
        names = sorted({measure.property.name for measure in verifier().measures})
    except ValidationError:  # some setting has no default
        return "What it measures depends on its settings."
    return f"With its default settings it measures {_codes(names)}."


def _models(schema: Schema, name: str, with_table: set[str]) -> Iterator[str]:
    """Yields a table for the model of the schema, then one for each model that its fields use and that has none yet.

    name: the name of the first model. with_table: names of models that have a table; the names of the models shown here
    are added.
    """
    queue = [(name, schema)]
    while queue:
        title, model = queue.pop(0)
        if model is not schema:
            yield f"#### {title}\n"
            description = model.get("description")
            if description:
                yield f"{_first_paragraph(description)}\n"
        yield _table(model) if model.get("properties") else "No settings.\n"
        fields = json.dumps(model.get("properties", {}))
        for key in re.findall(r'"\$ref": "#/\$defs/(.*?)"', fields):  # names of the models that the fields refer to
            if key not in with_table:
                with_table.add(key)
                queue.append((key, schema["$defs"][key]))


def _table(model: Schema) -> str:
    required = set(model.get("required", ()))
    lines = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for key, field in model["properties"].items():
        shown = f"**`{key}`**" if key in required else f"`{key}`"
        default = f"`{_plain(field['default'])}`" if "default" in field else ""
        lines.append(f"| {shown} | {_takes(field)} | {default} | {_cell(field.get('description', ''))} |")
    return "\n".join(lines) + "\n"


def _takes(field: Schema) -> str:
    """Returns a field's type and bounds in a few words."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key_of_options in ("anyOf", "oneOf", "allOf"):
        if key_of_options in field:
            options = [_takes(option) for option in field[key_of_options]]
            return " or ".join(dict.fromkeys(options))
    if "enum" in field:
        return ", ".join(f"`{_plain(value)}`" for value in field["enum"])
    if "const" in field:
        return f"`{_plain(field['const'])}`"
    kind = str(field.get("type", "anything"))
    if kind == "array":
        items = field.get("items")
        if not items:
            items_by_place = field.get("prefixItems") or [{}]
            items = items_by_place[0]
        return f"list of {_takes(items)}"
    if kind == "object":
        values = field.get("additionalProperties")
        return f"mapping to {_takes(values)}" if isinstance(values, dict) else "mapping"
    names = {"string": "text", "null": "nothing", "boolean": "true or false"}
    limits = {SIGNS[name]: field[key] for key, name in LIMITS.items() if key in field}
    return with_limits(names.get(kind, kind), limits)


def _properties(distribution: str | None) -> str:
    """Returns the table of properties. distribution: as in `reference`."""
    lines = ["| property | units, canonical first | what it is |", "|---|---|---|"]
    registry = properties()
    names = [name for name in registry if distribution in (None, registry.provider(name).split()[0])]
    for name in sorted(names):
        prop = registry[name]
        lines.append(f"| `{prop.name}` | {_codes(list(prop.units))} | {_cell(prop.description)} |")
    return "\n".join(lines) + "\n"


def _codes(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def _plain(value: Any) -> str:
    """Returns a default in YAML, in one line; names and numbers in lists stand without quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False).replace('"', "")


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
