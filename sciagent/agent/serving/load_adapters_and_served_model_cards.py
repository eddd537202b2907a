"""The models that a server on this machine serves: LoRA adapters that are loaded and unloaded, and cards with hashes.

The server reads the adapter's folder. A card has the hashes of a model's weights and of its chat template.

A server tells its clients only the name of a model. Names hold the beginning of the weights' hash, and a file of that
name below SCIAGENT_MODELS holds the whole hashes.
"""

from __future__ import annotations

import http.client
import json
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from sciagent.agent import install_and_find_models
from sciagent.agent.install_and_find_models import ModelError, checked, content_sha256, fingerprints
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.domain.safe_text_and_durations import address_fault, without_secrets
from sciagent.errors import UsageError
from sciagent.inputs.environment_variables import models_folder

DIGITS = 8  # hexadecimal digits of an adapter's hash in its name


class ServedCard(BaseModel):
    """A model under the name by which a server knows it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """Name in requests and answers, such as `policy-1@1a2b3c4d`."""
    base_sha256: str | None
    """SHA-256 of the base model's weights; None if unknown."""
    adapter_sha256: str | None = None
    """SHA-256 of the adapter; None without one."""
    template_sha256: str | None = None
    """SHA-256 of the chat template that the server uses; None if unknown."""
    tokenizer: Path | None = None
    """Folder of the base model's tokenizer."""

    @property
    def sha256(self) -> str:
        """The hash of the weights, which a ledger has for the policy; the adapter's alone if the base is unknown."""
        if self.base_sha256 is None:
            return self.adapter_sha256 or ""
        return PolicyIdentity(self.name, "", self.base_sha256, self.adapter_sha256).hash


def keep_card(card: ServedCard) -> None:
    """Writes the card. Raises UsageError if other weights were served under this name."""
    known = _written(card.name)
    if known is not None and (known.base_sha256, known.adapter_sha256) != (card.base_sha256, card.adapter_sha256):
        raise UsageError(
            f"other weights were served as {card.name}; a name cannot change its weights, so choose another name"
        )
    path = _path(card.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(card.model_dump_json(indent=2) + "\n")
    Path(file.name).replace(path)


def served_card(name: str) -> ServedCard | None:
    """Returns the card of a name; None if there is none. If the name is an installed model's name in the ledger, its
    weights and tokenizer are known. If it is only what the model is called, the weights are unknown, since the server
    may have others."""
    card = _written(name)
    if card is not None:
        return card
    try:
        installed = install_and_find_models.installed()
    except install_and_find_models.ModelError:
        return None
    for model in installed:
        if name in (model.policy, model.name):
            weights = model.sha256 if name == model.policy else None
            return ServedCard(name=name, base_sha256=weights, tokenizer=model.folder)
    return None


def _written(name: str) -> ServedCard | None:
    """Returns the card that `keep_card` wrote; None if there is none that can be read."""
    try:
        return ServedCard.model_validate_json(_path(name).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def content_name(name: str, sha256: str) -> str:
    """Returns the name with the first digits of the hash, `policy-1@1a2b3c4d`. Raises UsageError for a name that ends
    with the digits of another hash, or that is invalid."""
    plain, at, digits = name.partition("@")
    install_and_find_models.checked(plain)
    if at and (len(digits) < DIGITS or not sha256.startswith(digits)):
        raise UsageError(
            f"the adapter on this base model has the hash {sha256}, not {digits}; a name cannot change its weights: "
            f"call it {plain} or {plain}@{sha256[:DIGITS]}"
        )
    return f"{plain}@{sha256[:DIGITS]}"


def _path(name: str) -> Path:
    """Returns the path of a card."""
    return models_folder() / ".served" / f"{install_and_find_models.sha256(name)}.json"


CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
MAX_ANSWER = 1_000_000  # bytes
TIMEOUT = 300.0  # seconds; the server reads weights before it answers
KEY = "VLLM_API_KEY"  # the variable in which vLLM looks for its server's key


def adapter_sha256(folder: Path) -> str:
    """Returns the SHA-256 of an adapter: of the list of its files and their hashes."""
    return content_sha256(fingerprints([folder / CONFIG, folder / WEIGHTS]))


def check_adapter(name: str, folder: Path, most: int | None = None) -> None:
    """Raises UsageError unless the folder is in peft's format with safetensors; the other formats are pickles. most:
    the highest rank that the server accepts."""
    checked(name.partition("@")[0])
    for needed in (CONFIG, WEIGHTS):
        if not (folder / needed).is_file():
            raise UsageError(f"{folder} is no LoRA adapter as peft saves them: it has no {needed}")
    try:
        rank = int(json.loads((folder / CONFIG).read_text(encoding="utf-8"))["r"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder / CONFIG} cannot be read: {type(error).__name__}: {error}") from error
    if most is not None and rank > most:
        raise UsageError(f"the adapter {name} has rank {rank}, and the server takes {most}; start it with --lora-rank")


def adapter_card(name: str, folder: Path, base: ServedCard | None) -> ServedCard:
    """Returns the card of an adapter, with its name on a server, `policy-1@1a2b3c4d`. base: the card of its base model,
    if that is known. Raises UsageError."""
    check_adapter(name, folder)
    base_fields: dict[str, Any] = {"base_sha256": None} if base is None else base.model_dump()
    own_fields: dict[str, Any] = {"name": name, "adapter_sha256": adapter_sha256(folder)}
    card = ServedCard.model_validate({**base_fields, **own_fields})
    return card.model_copy(update={"name": content_name(name, card.sha256)})


def load_adapter(endpoint: str, name: str, folder: Path) -> str:
    """Loads an adapter and returns its name on the server, which holds the beginning of its hash.

    Nothing is replaced: other weights get another name. Raises UsageError or ModelError.
    """
    base = None
    for served in served_bases(endpoint):
        base = served_card(served)
        if base is not None:
            break
    card = adapter_card(name, folder, base)
    if card.name not in loaded_adapters(endpoint):
        _ask(endpoint, "/load_lora_adapter", {"lora_name": card.name, "lora_path": str(folder.resolve())})
        if adapter_sha256(folder) != card.adapter_sha256:
            unload_adapter(endpoint, card.name)
            raise ModelError(f"{folder} has changed while the server loaded it; load it again")
    keep_card(card)
    return card.name


def unload_adapter(endpoint: str, name: str) -> str:
    """Unloads an adapter and returns its name on the server. name: may lack the hash if only one adapter has this name.
    Raises UsageError or ModelError."""
    checked(name.partition("@")[0])
    matching = [served for served in loaded_adapters(endpoint) if name in (served, served.partition("@")[0])]
    if len(matching) > 1 and name not in matching:
        raise UsageError(
            f"{endpoint} has several adapters called {name}; name one of them: {', '.join(sorted(matching))}"
        )
    served = name
    if matching and name not in matching:
        served = matching[0]
    _ask(endpoint, "/unload_lora_adapter", {"lora_name": served})
    return served


def loaded_adapters(endpoint: str) -> dict[str, str]:
    """Returns the loaded adapters: name to base model."""
    return {name: parent for name, parent in _served(endpoint) if parent is not None}


def served_bases(endpoint: str) -> list[str]:
    """Returns the names of the server's base model."""
    return [name for name, parent in _served(endpoint) if parent is None]


def _served(endpoint: str) -> list[tuple[str, str | None]]:
    """Returns (name, base model) of all that the server lists; None for a base model itself."""
    try:
        rows = json.loads(_ask(endpoint, "/models", body=None))["data"]
        return [(str(row["id"]), str(row["parent"]) if row.get("parent") else None) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{endpoint} sent no list of models") from error


def _ask(endpoint: str, path: str, body: Mapping[str, Any] | None) -> str:
    """Returns the server's answer as text, without the key. Raises UsageError or ModelError."""
    why = address_fault(endpoint)
    if why:
        raise UsageError(f"{endpoint!a} is no endpoint: {why}; an endpoint looks like http://127.0.0.1:8000/v1")
    headers = {"Content-Type": "application/json"}
    key = os.environ.get(KEY)
    if key:
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
        # the server has no such path, and does not speak of an adapter that it cannot find
        if error.code == 404 and body is not None and "lora" not in text.lower():
            raise ModelError(f"{endpoint} loads no adapters while it runs; `sciagent serve-model` does") from error
        raise ModelError(f"{endpoint} answered {error.code}: {text[:500]}") from error
    except (OSError, http.client.HTTPException) as error:
        raise ModelError(f"{endpoint} did not answer: {without_secrets(str(error), (key,))}") from error
