"""Loads models for training, writes trained weights, and publishes trained policies.

`load` loads a model of `sciagent models`, whole or with a LoRA adapter. `write_adapter` writes an adapter: equal
weights give equal files, so that the hash of an adapter names its weights. `publish` gives a trained policy a name in
`sciagent models` and a row in the ledger.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sciagent.agent import install_and_find_models
from sciagent.agent.install_and_find_models import Model
from sciagent.agent.serving.load_adapters_and_served_model_cards import CONFIG, WEIGHTS, ServedCard, adapter_card
from sciagent.domain.policy_identity import IN_PROCESS, PolicyIdentity
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles
from sciagent.training.learner.learner_rows_and_rendered_conversations import AnswerGrammars, Conversations

EXTRA = "training needs an extra: pip install 'sciagent[train]'"
PACKAGES = ("accelerate", "llguidance", "peft", "safetensors", "torch", "transformers")


@dataclass(frozen=True)
class LoadedModel:
    """A model that is about to be trained."""

    card: Model
    model: Any
    """A model of transformers; with an adapter, of peft."""
    tokenizer: Any
    ends: frozenset[int]
    """Ids of the tokens that end an answer."""
    rank: int
    """Rank of the LoRA adapter; 0 without one."""

    @property
    def context(self) -> int:
        """Most tokens of a sequence."""
        return int(self.model.config.max_position_embeddings)

    @property
    def conversations(self) -> Conversations:
        return Conversations(self.tokenizer, self.ends)

    @property
    def grammars(self) -> AnswerGrammars:
        return AnswerGrammars(self.tokenizer, int(self.model.config.vocab_size), sorted(self.ends))

    def reference(self) -> Any:
        """Returns the model as it is now, which can be called like it: the model without its adapter, or a copy that is
        not trained."""
        if self.rank:
            return _WithoutAdapter(self.model)
        return copy.deepcopy(self.model).requires_grad_(False).eval()


class _WithoutAdapter:
    """A model whose adapter is off during a call."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, **inputs: Any) -> Any:
        with self._model.disable_adapter():
            return self._model(**inputs)


def check_extra() -> None:
    """Raises UsageError if a package of the extra `train` is missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UsageError(f"{EXTRA} (missing: {', '.join(missing)})")


def load(name: str, rank: int = 0, seed: int = 0) -> LoadedModel:
    """Loads a model in single precision. rank: of a new LoRA adapter on all linear layers; 0: all weights are trained.
    seed: of the adapter's first weights.

    Raises UnknownNameError for an unknown model, UsageError for one that cannot be trained.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    card = install_and_find_models.find(name)
    tokenizer = AutoTokenizer.from_pretrained(card.folder, local_files_only=True)
    if not tokenizer.chat_template:
        raise UsageError(f"{name} has no chat template")
    model = AutoModelForCausalLM.from_pretrained(
        card.folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
    )
    end_ids = model.generation_config.eos_token_id
    if not isinstance(end_ids, list):
        end_ids = [end_ids]
    ends = {*end_ids, tokenizer.eos_token_id} - {None}
    if rank:
        model = _adapted(model, rank, seed)
    return LoadedModel(card, model, tokenizer, frozenset(ends), rank)


def _adapted(model: Any, rank: int, seed: int) -> Any:
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    settings = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", bias="none")
    return get_peft_model(model, settings)


def write_adapter(loaded: LoadedModel, model: Any, folder: Path) -> None:
    """Writes the adapter as peft and vLLM load it, in one rename; a folder that is there is replaced.

    model: of peft, without the wrapping of `accelerate`.
    """
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part)
    settings = json.loads((part / CONFIG).read_text(encoding="utf-8"))
    # peft writes the path of the base model, and its modules in any order; with them, equal weights give unequal files
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
    return PolicyIdentity(card.name, IN_PROCESS, base_sha256=card.base_sha256, adapter_sha256=card.adapter_sha256)


POLICY = "policy"  # folder of the whole weights in the folder of a run
ADAPTER = "adapter"  # folder of the adapter in the folder of a run
STEPS_FILE = "training.json"  # in the folder of the policy: the number of steps that it was trained for


def check_name(name: str, folder: Path) -> None:
    """Raises UsageError for a wrong name, or if another model has the name. folder: of the training run."""
    install_and_find_models.checked(name)
    installed = _installed(name)
    if installed is not None and installed.folder != (folder / POLICY).resolve():
        raise UsageError(f"there is a model {name} already; choose another name with --name")


def _installed(name: str) -> Model | None:
    """Returns the model of this machine with a name; None if there is none."""
    for model in install_and_find_models.installed():
        if model.name == name:
            return model
    return None


def is_written(folder: Path, steps: int) -> bool:
    """Returns whether a run's folder has the weights as they are after this number of steps."""
    path = folder / POLICY / STEPS_FILE
    return path.is_file() and json.loads(path.read_text(encoding="utf-8")) == {"steps": steps}


def write_weights(loaded: LoadedModel, model: Any, folder: Path, steps: int) -> None:
    """Writes the weights and the tokenizer in the layout of Hugging Face, in place of weights after fewer steps.

    An adapter is written too, and merged into the weights. model: without the wrapping of `accelerate`.
    """
    part = folder / ".policy.part"
    merged = model
    shutil.rmtree(part, ignore_errors=True)
    if loaded.rank:
        write_adapter(loaded, model, folder / ADAPTER)
        merged = copy.deepcopy(model).merge_and_unload()
    merged.save_pretrained(part)
    loaded.tokenizer.save_pretrained(part)
    (part / STEPS_FILE).write_text(json.dumps({"steps": steps}), encoding="utf-8")
    shutil.rmtree(folder / POLICY, ignore_errors=True)
    part.rename(folder / POLICY)


def publish(loaded: LoadedModel, folder: Path, name: str, recipe: Mapping[str, Any], ledger: Ledger | None) -> Model:
    """Adds the weights in a run's folder to the models of this machine, and enters the policy in the ledger.

    recipe: how it was trained.
    """
    installed = _installed(name)
    # the run has published the model after fewer steps: its files do not have the hash any more that was entered then
    if installed is not None and installed.fault():
        install_and_find_models.remove(name)
    model = install_and_find_models.add_folder(folder / POLICY, name, tell=lambda _: None)
    if ledger is not None:
        base = loaded.card
        identities = [PolicyIdentity(model.policy, IN_PROCESS, base_sha256=model.sha256)]
        if loaded.rank:
            identities.append(adapter_identity(loaded, folder / ADAPTER, name))
        with ledger.begin() as connection:
            parent_id = policies_and_roles.enter(
                connection, PolicyIdentity(base.policy, IN_PROCESS, base_sha256=base.sha256)
            )
            for identity in identities:
                policies_and_roles.enter(connection, identity, parent_id=parent_id, recipe=recipe)
    return model
