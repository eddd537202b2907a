"""The versions of the policy that is trained: each has the hash of its weights as identity."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sciagent.agent import models
from sciagent.agent.models import Model
from sciagent.domain.campaigns.policies import PolicyIdentity
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies
from sciagent.training.learner.adapters import adapter_identity, write_adapter
from sciagent.training.learner.loading import LoadedModel


def of_card(card: Model) -> PolicyIdentity:
    """Returns the identity of a model of this machine."""
    return PolicyIdentity(card.policy, "in process", card.sha256)


def identity_of(loaded: LoadedModel, model: Any, name: str) -> PolicyIdentity:
    """Returns the identity of a model as it would be on disk: that of its files, or of its adapter's."""
    with tempfile.TemporaryDirectory(prefix="sciagent-version-") as folder:
        if loaded.rank:
            write_adapter(loaded, model, Path(folder) / "adapter")
            return adapter_identity(loaded, Path(folder) / "adapter", name)
        model.save_pretrained(folder)
        sha256 = models.content_sha256(models.fingerprints(sorted(Path(folder).glob("*.safetensors"))))
    return PolicyIdentity(f"{name}@{sha256[:12]}", "in process", sha256)


def entered(ledger: Ledger, identity: PolicyIdentity, parent_id: int | None, recipe: Mapping[str, Any]) -> int:
    """Returns the ledger's id of a version, and writes its row if it is new."""
    with ledger.begin() as connection:
        return policies.enter(connection, identity, parent_id=parent_id, recipe=recipe)
