"""Loss and gradient of the learner are those of TRL on the same rows, in an environment with TRL."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from sciagent.training.learner.training_step import Learner
from sciagent.training.settings import LearnerSettings
from tests.support.environments import TRL, interpreter, run
from tests.training.learner.made_rows import gradient, sampled_rows


@pytest.mark.long
def test_loss_and_gradient_are_those_of_grpo_in_trl(model: Any, tiny_folder: Path, tmp_path: Path) -> None:
    run(
        interpreter("trl", *TRL),
        "-m",
        "tests.support.trl_loss",
        str(tiny_folder),
        str(tmp_path / "trl"),
        folder=tmp_path,
    )
    theirs = torch.load(tmp_path / "trl", weights_only=True)
    rows = sampled_rows(model, 6, drift=0.4)
    reference = copy.deepcopy(model)
    reference.load_state_dict(theirs["reference"])
    model.load_state_dict(theirs["policy"])
    for part, kl in (("importance mask", 0.0), ("divergence", 0.04)):
        learner = Learner(model, LearnerSettings(kl=kl, most_tokens=100), reference=reference)
        loss, _ = gradient(learner, rows)
        expected, slopes = theirs["found"][part]["loss"], theirs["found"][part]["slopes"]
        assert loss == pytest.approx(float(expected), abs=1e-5), part
        largest = max(float(slope.abs().max()) for slope in slopes.values())
        for name, weights in learner.model.named_parameters():
            assert torch.allclose(weights.grad, slopes[name], atol=1e-5 * largest, rtol=1e-5), (part, name)
        told = learner.gradient(rows)
        assert 0 < told.masked < 0.5 and (told.kl or 0) > 1e-3 and largest > 1e-2, "there is something to compare"
