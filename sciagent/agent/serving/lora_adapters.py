"""Loads, unloads and lists LoRA adapters of a running server on this machine. The server reads the adapter's folder."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from sciagent.agent.models import ModelError, checked
from sciagent.domain.addresses import address_fault
from sciagent.domain.text import without_secrets
from sciagent.errors import UsageError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MAX_ANSWER = 1_000_000  # bytes
TIMEOUT = 300.0  # seconds; the server reads weights before it answers
KEY = "VLLM_API_KEY"  # the variable in which vLLM looks for its server's key


def check_adapter(name: str, folder: Path, most: int | None = None) -> None:
    """Raises UsageError unless the folder is in peft's format with safetensors; the other formats are pickles. most:
    the highest rank that the server accepts."""
    checked(name)
    for needed in (CONFIG, WEIGHTS):
        if not (folder / needed).is_file():
            raise UsageError(f"{folder} is no LoRA adapter as peft saves them: it has no {needed}")
    try:
        rank = int(json.loads((folder / CONFIG).read_text(encoding="utf-8"))["r"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder / CONFIG} cannot be read: {type(error).__name__}: {error}") from error
    if most is not None and rank > most:
        raise UsageError(f"the adapter {name} has rank {rank}, and the server takes {most}; start it with --lora-rank")


def load(endpoint: str, name: str, folder: Path) -> None:
    """Loads an adapter under this name, in place of an earlier one. Raises UsageError or ModelError."""
    check_adapter(name, folder)
    body = {"lora_name": name, "lora_path": str(folder.resolve()), "load_inplace": name in loaded(endpoint)}
    _ask(endpoint, "/load_lora_adapter", body)


def unload(endpoint: str, name: str) -> None:
    _ask(endpoint, "/unload_lora_adapter", {"lora_name": checked(name)})


def loaded(endpoint: str) -> dict[str, str]:
    """Returns the loaded adapters: name to base model."""
    try:
        rows = json.loads(_ask(endpoint, "/models", None))["data"]
        return {str(row["id"]): str(row["parent"]) for row in rows if row.get("parent")}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{endpoint} sent no list of models") from error


def _ask(endpoint: str, path: str, body: Mapping[str, Any] | None) -> str:
    """Returns the server's answer as text, without the key. Raises UsageError or ModelError."""
    if why := address_fault(endpoint):
        raise UsageError(f"{endpoint!a} is no endpoint: {why}; an endpoint looks like http://127.0.0.1:8000/v1")
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY):
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(endpoint.rstrip("/") + path, data, headers)

    def text_of(response: IO[bytes]) -> str:
        return without_secrets(response.read(MAX_ANSWER).decode("utf-8", "replace"), (key,))

    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return text_of(answer)
    except urllib.error.HTTPError as error:
        text = text_of(error)
        if error.code == 404 and body is not None and "lora" not in text.lower():
            raise ModelError(f"{endpoint} loads no adapters while it runs; `sciagent serve-model` does") from error
        raise ModelError(f"{endpoint} answered {error.code}: {text[:500]}") from error
    except (OSError, http.client.HTTPException) as error:
        raise ModelError(f"{endpoint} did not answer: {without_secrets(str(error), (key,))}") from error
