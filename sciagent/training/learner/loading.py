"""Loads a model of `sciagent models list` for training: whole, or with a LoRA adapter."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from sciagent.agent import models
from sciagent.agent.models import Model
from sciagent.errors import UsageError
from sciagent.training.learner.conversations import Conversations
from sciagent.training.learner.grammars import AnswerGrammars

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
        """Returns the model as it is now, to be called like it: without its adapter, or a copy that is not trained."""
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
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
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
    card = models.find(name)
    tokenizer = AutoTokenizer.from_pretrained(card.folder, local_files_only=True)
    if not tokenizer.chat_template:
        raise UsageError(f"{name} has no chat template")
    model = AutoModelForCausalLM.from_pretrained(
        card.folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
    )
    named = model.generation_config.eos_token_id
    ends = {*(named if isinstance(named, list) else [named]), tokenizer.eos_token_id} - {None}
    if rank:
        model = _adapted(model, rank, seed)
    return LoadedModel(card, model, tokenizer, frozenset(ends), rank)


def _adapted(model: Any, rank: int, seed: int) -> Any:
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    settings = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", bias="none")
    return get_peft_model(model, settings)
