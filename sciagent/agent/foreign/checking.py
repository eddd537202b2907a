"""Whether the arguments that a model wrote fit the schema of a server's tool, said so that it can do better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sciagent.agent.tools.reading import CallError
from sciagent.agent.tools.wording import short

MAX_COMPLAINTS = 6


def check_arguments(name: str, schema: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments as given. schema: one that `plain` made; its size bounds the work. Raises CallError."""
    from jsonschema import Draft202012Validator

    wrong = []
    for error in Draft202012Validator(dict(schema)).iter_errors(given):
        where = short(".".join(map(str, error.absolute_path)), 80)
        wrong.append(f"{where}: {short(error.message, 200)}" if where else short(error.message, 200))
        if len(wrong) == MAX_COMPLAINTS:
            break
    if wrong:
        raise CallError("\n".join([*wrong, f"{name} takes: {_takes(schema)}"]))
    return given


def _takes(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    named = [f"{short(one, 80)}{' (has to be given)' if one in required else ''}" for one in schema["properties"]]
    return ", ".join(named) or "no arguments that are known"
