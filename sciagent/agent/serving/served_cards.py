"""Cards of the models that this machine serves, with the hashes of their weights and of their chat template.

A server tells its clients only the name of a model. Names hold the beginning of the weights' hash, and a file of that
name below SCIAGENT_MODELS holds the whole hashes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sciagent.agent import models
from sciagent.domain.policies import PolicyIdentity
from sciagent.errors import UsageError
from sciagent.inputs.settings import models_folder

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
        """The hash of the weights: that of the policy in a ledger, or of the adapter alone if the base is unknown."""
        if self.base_sha256 is None:
            return self.adapter_sha256 or ""
        return PolicyIdentity(self.name, "", self.base_sha256, self.adapter_sha256).hash


def keep(card: ServedCard) -> None:
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


def find(name: str) -> ServedCard | None:
    """Returns the card of a name; None if there is none. Of an installed model that has this name in the ledger weights
    and tokenizer are known; of one that is only called so the tokenizer, which may be that of the server's model."""
    if (card := _written(name)) is not None:
        return card
    try:
        installed = models.installed()
    except models.ModelError:
        return None
    for model in installed:
        if name in (model.policy, model.name):
            weights = model.sha256 if name == model.policy else None
            return ServedCard(name=name, base_sha256=weights, tokenizer=model.folder)
    return None


def _written(name: str) -> ServedCard | None:
    try:
        return ServedCard.model_validate_json(_path(name).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def content_name(name: str, sha256: str) -> str:
    """Returns the name with the first digits of the hash, `policy-1@1a2b3c4d`. Raises UsageError for a name that ends
    with those of another hash, or that is invalid."""
    plain, at, digits = name.partition("@")
    models.checked(plain)
    if at and (len(digits) < DIGITS or not sha256.startswith(digits)):
        raise UsageError(
            f"the adapter on this base model has the hash {sha256}, not {digits}; a name cannot change its weights: "
            f"call it {plain} or {plain}@{sha256[:DIGITS]}"
        )
    return f"{plain}@{sha256[:DIGITS]}"


def _path(name: str) -> Path:
    return models_folder() / ".served" / f"{models.sha256(name)}.json"
