"""Publishes a trained policy: its weights in a folder, its name in `sciagent models list`, its row in the ledger."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sciagent.agent import models
from sciagent.agent.models import Model
from sciagent.domain.policies import IN_PROCESS, PolicyIdentity
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies
from sciagent.training.learner.adapters import adapter_identity, write_adapter
from sciagent.training.learner.loading import LoadedModel

POLICY, ADAPTER = "policy", "adapter"
STEPS = "training.json"  # in the folder of the policy: after how many steps it was written


def check_name(name: str, folder: Path) -> None:
    """Raises UsageError if another model has the name. folder: of the training run."""
    models.checked(name)
    taken = _installed(name)
    if taken is not None and taken.folder != (folder / POLICY).resolve():
        raise UsageError(f"there is a model {name} already; choose another name with --name")


def _installed(name: str) -> Model | None:
    return {model.name: model for model in models.installed()}.get(name)


def is_written(folder: Path, steps: int) -> bool:
    """Returns whether a run's folder has the weights as they are after so many steps."""
    path = folder / POLICY / STEPS
    return path.is_file() and json.loads(path.read_text(encoding="utf-8")) == {"steps": steps}


def write_weights(loaded: LoadedModel, model: Any, folder: Path, steps: int) -> None:
    """Writes the weights and the tokenizer as Hugging Face lays them out, in place of those after fewer steps. An
    adapter is written too, and merged into the weights. model: without the wrapping of `accelerate`."""
    import copy

    part, whole = folder / ".policy.part", model
    shutil.rmtree(part, ignore_errors=True)
    if loaded.rank:
        write_adapter(loaded, model, folder / ADAPTER)
        whole = copy.deepcopy(model).merge_and_unload()
    whole.save_pretrained(part)
    loaded.tokenizer.save_pretrained(part)
    (part / STEPS).write_text(json.dumps({"steps": steps}), encoding="utf-8")
    shutil.rmtree(folder / POLICY, ignore_errors=True)
    part.rename(folder / POLICY)


def publish(loaded: LoadedModel, folder: Path, name: str, recipe: Mapping[str, Any], ledger: Ledger | None) -> Model:
    """Adds the weights in a run's folder to the models of this machine, and enters the policy in the ledger.

    recipe: how it was trained.
    """
    if (before := _installed(name)) is not None and before.fault():
        models.remove(name)  # the run had fewer steps then
    model = models.add_folder(folder / POLICY, name, lambda _: None)
    if ledger is not None:
        base = loaded.card
        made = [PolicyIdentity(model.policy, IN_PROCESS, model.sha256)]
        if loaded.rank:
            made.append(adapter_identity(loaded, folder / ADAPTER, name))
        with ledger.begin() as connection:
            parent = policies.enter(connection, PolicyIdentity(base.policy, IN_PROCESS, base.sha256))
            for identity in made:
                policies.enter(connection, identity, parent_id=parent, recipe=recipe)
    return model
