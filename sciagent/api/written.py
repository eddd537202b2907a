"""A campaign that was written in Python: its keyword arguments become the YAML that the ledger keeps."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML

from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.campaign.spec.load import parse_spec
from sciagent.errors import SpecError, UsageError
from sciagent.verification import registry

NAME = "Campaign(...)"


def spec_of(keys: Mapping[str, Any], base: str | Path | None) -> tuple[CampaignSpec, str]:
    """The spec, and its YAML. Raises SpecError with every mistake, by its path: `ladder[1].gate.gap: ...`."""
    text = yaml_of(keys)
    try:
        return parse_spec(text, NAME, Path(base).resolve() if base is not None else None), text
    except SpecError as error:  # lines and columns are those of a text that nobody has seen
        raise SpecError(re.sub(rf"^{re.escape(NAME)}:\d+:\d+: ", f"{NAME}: ", str(error), flags=re.MULTILINE)) from None


def yaml_of(keys: Mapping[str, Any]) -> str:
    """The arguments as a campaign file. Raises SpecError for what a file cannot hold."""
    stream = io.StringIO()
    YAML(pure=True).dump(_plain(keys, ""), stream)
    return stream.getvalue()


def check_executor(spec: CampaignSpec, executor: str) -> None:
    """Raises UsageError where a rung is a function of this process, and its jobs would run elsewhere."""
    mine = [rung.rung for rung in spec.ladder if rung.verifier in registry.defined()]
    if mine and executor != "local":
        raise UsageError(
            f'executor="{executor}": {", ".join(mine)} is a function of this process, which workers elsewhere do not '
            'have; run it with executor="local", or put it in a package (docs/verifiers.md)'
        )


def _plain(value: Any, path: str) -> Any:
    """Dictionaries, lists, texts, numbers; models and functions by what they are called in a file."""
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
    if hasattr(value, "item"):  # a number of NumPy
        return _plain(value.item(), path)
    if isinstance(name := getattr(value, "verifier_name", None), str):  # a function under `sciagent.verifier`
        return name
    if callable(value):
        raise SpecError(f"{NAME}: {path}: {value!r} is no verifier; put @sciagent.verifier(...) above it")
    raise SpecError(f"{NAME}: {path}: a {type(value).__name__} has no place in a campaign file")
