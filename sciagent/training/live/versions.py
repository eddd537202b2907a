"""The versions of the policy that is trained: each has the hash of its weights as identity."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

from sciagent.agent import models
from sciagent.agent.models import Model
from sciagent.domain.policies import PolicyIdentity
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies
from sciagent.training.learner.adapters import adapter_identity, write_adapter
from sciagent.training.learner.loading import LoadedModel


class Version(NamedTuple):
    """A version of the policy."""

    identity: PolicyIdentity
    steps: int
    """Number of steps after which the policy stood so."""
    weights: Mapping[str, Any] | None = None
    """The trained weights by name; None if nobody needs them later."""

    def noted(self) -> list[Any]:
        """Returns the version as lists and plain values, as a checkpoint keeps it."""
        return [list(astuple(self.identity)), self.steps, self.weights]


def of_note(noted: list[Any] | None) -> Version | None:
    """Returns the version that a checkpoint has kept; None for none."""
    return None if noted is None else Version(PolicyIdentity(*noted[0]), noted[1], noted[2])


def trained_weights(model: Any) -> Mapping[str, Any]:
    """Returns a copy of the weights that are trained, by name."""
    return {name: each.detach().clone() for name, each in model.named_parameters() if each.requires_grad}


def put(model: Any, weights: Mapping[str, Any]) -> None:
    """Gives a model trained weights."""
    model.load_state_dict(weights, strict=False)


@contextmanager
def holding(model: Any, weights: Mapping[str, Any] | None) -> Iterator[None]:
    """Gives a model other trained weights for the time of the context; None: it keeps its own."""
    if weights is None:
        yield
        return
    own = trained_weights(model)
    put(model, weights)
    try:
        yield
    finally:
        put(model, own)


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
        sha256 = str(models.folder_sha256(Path(folder)))
    return PolicyIdentity(models.policy_name(name, sha256), "in process", sha256)


def entered(ledger: Ledger, identity: PolicyIdentity, parent_id: int | None, recipe: Mapping[str, Any]) -> int:
    """Returns the ledger's id of a version, and writes its row if it is new."""
    with ledger.begin() as connection:
        return policies.enter(connection, identity, parent_id=parent_id, recipe=recipe)
