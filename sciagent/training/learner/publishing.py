"""Publishes a trained policy: its weights in a folder, its name in `sciagent models list`, its row in the ledger."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sciagent.agent import models
from sciagent.agent.models import Model
from sciagent.domain.campaigns.policies import PolicyIdentity
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies
from sciagent.training.learner.adapters import adapter_identity, write_adapter
from sciagent.training.learner.loading import LoadedModel

POLICY, ADAPTER = "policy", "adapter"


def check_name(name: str, folder: Path) -> None:
    """Raises UsageError if another model has the name. folder: of the training run."""
    models.checked(name)
    taken = {model.name: model for model in models.installed()}.get(name)
    if taken is not None and taken.folder != (folder / POLICY).resolve():
        raise UsageError(f"there is a model {name} already; choose another name with --name")


def write_weights(loaded: LoadedModel, model: Any, folder: Path) -> None:
    """Writes the weights and the tokenizer as Hugging Face lays them out, each folder in one rename. An adapter is
    written too, and merged into the weights. model: without the wrapping of `accelerate`."""
    import copy

    part, whole = folder / ".policy.part", model
    shutil.rmtree(part, ignore_errors=True)
    if loaded.rank:
        write_adapter(loaded, model, folder / ADAPTER)
        whole = copy.deepcopy(model).merge_and_unload()
    whole.save_pretrained(part)
    loaded.tokenizer.save_pretrained(part)
    part.rename(folder / POLICY)


def publish(loaded: LoadedModel, folder: Path, name: str, recipe: Mapping[str, Any], ledger: Ledger | None) -> Model:
    """Adds the weights in a run's folder to the models of this machine, and enters the policy in the ledger.

    recipe: how it was trained.
    """
    model = models.add_folder(folder / POLICY, name, lambda _: None)
    if ledger is not None:
        base = loaded.card
        made = [PolicyIdentity(model.policy, "in process", model.sha256)]
        if loaded.rank:
            made.append(adapter_identity(loaded, folder / ADAPTER, name))
        with ledger.begin() as connection:
            parent = policies.enter(connection, PolicyIdentity(base.policy, "in process", base.sha256))
            for identity in made:
                policies.enter(connection, identity, parent_id=parent, recipe=recipe)
    return model
