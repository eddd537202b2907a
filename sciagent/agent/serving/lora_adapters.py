"""Loads, unloads and lists LoRA adapters of a running server on this machine, which reads the adapter's folder."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sciagent.agent.models import ModelError, checked
from sciagent.domain.addresses import address_fault
from sciagent.domain.text import without_secrets
from sciagent.errors import UsageError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MAX_ANSWER = 1_000_000  # bytes
TIMEOUT = 300.0  # seconds: weights are read meanwhile
KEY = "VLLM_API_KEY"  # where vLLM itself looks for the key of its server


def checked_adapter(name: str, folder: Path, most: int | None = None) -> Mapping[str, Any]:
    """The adapter's configuration. most: the highest rank that the server accepts.

    Raises UsageError if the folder is not in peft's form with safetensors; the other forms are pickles.
    """
    checked(name)
    for needed in (CONFIG, WEIGHTS):
        if not (folder / needed).is_file():
            raise UsageError(f"{folder} is no LoRA adapter as peft saves them: it has no {needed}")
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        rank = int(config["r"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder / CONFIG} cannot be read: {type(error).__name__}: {error}") from error
    if most is not None and rank > most:
        raise UsageError(f"the adapter {name} has rank {rank}, and the server takes {most}; start it with --lora-rank")
    return dict(config)


def load(endpoint: str, name: str, folder: Path) -> None:
    """Load an adapter under this name; one of the same name is replaced. Raises UsageError or ModelError."""
    checked_adapter(name, folder)
    body = {"lora_name": name, "lora_path": str(folder.resolve()), "load_inplace": name in loaded(endpoint)}
    _ask(endpoint, "/load_lora_adapter", body)


def unload(endpoint: str, name: str) -> None:
    _ask(endpoint, "/unload_lora_adapter", {"lora_name": checked(name)})


def loaded(endpoint: str) -> dict[str, str]:
    """Adapters by name, with the model that each belongs to."""
    answer = json.loads(_ask(endpoint, "/models", None))
    rows = answer.get("data") if isinstance(answer, dict) else None
    return {
        str(row.get("id")): str(row.get("parent")) for row in rows or () if isinstance(row, dict) and row.get("parent")
    }


def _ask(endpoint: str, path: str, body: Mapping[str, Any] | None) -> str:
    if why := address_fault(endpoint):
        raise UsageError(f"{endpoint!a} is no endpoint: {why}; one looks like http://127.0.0.1:8000/v1")
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY):
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(endpoint.rstrip("/") + path, data, headers)
    try:
        with urllib.request.urlopen(asked, timeout=TIMEOUT) as answer:
            return without_secrets(answer.read(MAX_ANSWER).decode("utf-8", "replace"), (key,))
    except urllib.error.HTTPError as error:
        text = error.read(MAX_ANSWER).decode("utf-8", "replace")
        said = without_secrets(_message(text), (key,))
        if error.code == 404 and body is not None and "lora" not in text.lower():
            raise ModelError(f"{endpoint} loads no adapters while it runs; `sciagent serve-model` does") from error
        raise ModelError(f"{endpoint} answered {error.code}: {said[:500]}") from error
    except (OSError, http.client.HTTPException) as error:
        raise ModelError(f"{endpoint} did not answer: {error}") from error


def _message(text: str) -> str:
    """The message in an error of OpenAI's form."""
    try:
        answer = json.loads(text)
        inside = answer.get("error", answer)
        return str(inside.get("message", text))
    except (ValueError, AttributeError):
        return text
