"""Converts the keyword arguments of `Campaign(...)` to a spec and to the YAML text that the ledger stores."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML

from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.spec.load import parse_spec
from sciagent.errors import SpecError, UsageError
from sciagent.verification import registry

NAME = "Campaign(...)"


def spec_of(keys: Mapping[str, Any], base: str | Path | None) -> tuple[CampaignSpec, str]:
    """Returns the spec and its YAML. Raises SpecError with all mistakes by path: `ladder[1].gate.gap: ...`."""
    text = yaml_of(keys)
    try:
        return parse_spec(text, NAME, Path(base).resolve() if base is not None else None), text
    except SpecError as error:  # its lines and columns mean nothing to the user, who has no file
        raise SpecError(re.sub(rf"^{re.escape(NAME)}:\d+:\d+: ", f"{NAME}: ", str(error), flags=re.MULTILINE)) from None


def yaml_of(keys: Mapping[str, Any]) -> str:
    """Returns the arguments as the text of a campaign file. Raises SpecError for values that a file cannot hold."""
    stream = io.StringIO()
    YAML(pure=True).dump(_plain(keys, ""), stream)
    return stream.getvalue()


def check_executor(spec: CampaignSpec, executor: str) -> None:
    """Raises UsageError if a rung is a function of this process but its jobs would run in other processes."""
    local = [rung.rung for rung in spec.all_rungs if rung.verifier in registry.defined()]
    if local and executor != "local":
        raise UsageError(
            f'executor="{executor}": {", ".join(local)} is a function of this process, which workers elsewhere do not '
            'have; run it with executor="local", or put it in a package (docs/verifiers.md)'
        )


def _plain(value: Any, path: str) -> Any:
    """Converts a value to dictionaries, lists, texts and numbers; a verifier function becomes its name."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return {str(key): _plain(part, f"{path}.{key}" if path else str(key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{path}[{place}]") for place, part in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "item"):  # a NumPy number
        return _plain(value.item(), path)
    if isinstance(name := getattr(value, "verifier_name", None), str):  # a function decorated with `sciagent.verifier`
        return name
    if callable(value):
        raise SpecError(f"{NAME}: {path}: {value!r} is no verifier; put @sciagent.verifier(...) above it")
    raise SpecError(f"{NAME}: {path}: a {type(value).__name__} has no place in a campaign file")
