"""Models as they are loaded for training."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from sciagent.agent.install_and_find_models import add_folder, remove
from sciagent.errors import UnknownNameError, UsageError
from sciagent.training.learner import load_and_publish


def test_all_weights_are_trained_or_those_of_an_adapter(tiny: str) -> None:
    whole, adapted = load_and_publish.load(tiny), load_and_publish.load(tiny, rank=4, seed=1)
    assert all(weights.requires_grad for weights in whole.model.parameters()) and whole.context == 4096
    names = {name for name, weights in adapted.model.named_parameters() if weights.requires_grad}
    assert names and all("lora_" in name for name in names)
    again = load_and_publish.load(tiny, rank=4, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(adapted.model.parameters(), again.model.parameters(), strict=True))


@pytest.mark.parametrize("rank", [0, 4])
def test_the_reference_stays_as_it_was(tiny: str, rank: int) -> None:
    loaded = load_and_publish.load(tiny, rank)
    ids, reference = torch.tensor([[3, 4, 5]]), loaded.reference()
    with torch.no_grad():
        before = reference(input_ids=ids).logits
        for weights in loaded.model.parameters():
            if weights.requires_grad:
                weights.add_(0.1)
        assert torch.equal(reference(input_ids=ids).logits, before)
        assert not torch.allclose(loaded.model(input_ids=ids).logits, before, atol=1e-2)


def test_a_model_that_cannot_hold_a_conversation_is_refused(tiny: str, tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match='did you mean "tiny"'):
        load_and_publish.load("tinny")
    copied = shutil.copytree(tiny_folder, tmp_path / "mute")
    add_folder(copied, "mute", lambda text: None)
    (copied / "chat_template.jinja").unlink()
    settings = json.loads((copied / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (copied / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UsageError, match="has no chat template"):
        load_and_publish.load("mute")
    remove("mute")
