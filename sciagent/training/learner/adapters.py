"""Writes LoRA adapters. Equal weights give equal files, so that the hash of an adapter names its weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from sciagent.agent.serving.served import CONFIG, WEIGHTS, adapter_card
from sciagent.agent.serving.served_cards import ServedCard
from sciagent.domain.policies import IN_PROCESS, PolicyIdentity
from sciagent.training.learner.loading import LoadedModel


def write_adapter(loaded: LoadedModel, model: Any, folder: Path) -> None:
    """Writes the adapter as peft and vLLM load it, in one rename; a folder that is there is replaced.

    model: of peft, without the wrapping of `accelerate`.
    """
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part)
    settings = json.loads((part / CONFIG).read_text(encoding="utf-8"))
    # peft writes the path of the base model, and a set in any order
    settings |= {"base_model_name_or_path": loaded.card.policy, "target_modules": sorted(settings["target_modules"])}
    (part / CONFIG).write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for path in part.iterdir():
        if path.name not in (CONFIG, WEIGHTS):
            path.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def adapter_identity(loaded: LoadedModel, folder: Path, name: str) -> PolicyIdentity:
    """Returns the identity of a written adapter on its base model. Its name is the one that servers give it."""
    base = ServedCard(name=loaded.card.policy, base_sha256=loaded.card.sha256)
    card = adapter_card(name, folder, base)
    return PolicyIdentity(card.name, IN_PROCESS, card.base_sha256, card.adapter_sha256)
