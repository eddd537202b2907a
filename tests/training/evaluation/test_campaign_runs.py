"""Campaigns of an evaluation whose proposer is a language model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent.agent.install_and_find_models import add_folder, find
from sciagent.agent.messages_sampling_and_policy_client import Sampling
from sciagent.store.database.ledger import Ledger
from sciagent.training.evaluation.campaign_runs import CampaignRuns, OneByOne, planned
from sciagent.training.evaluation.evaluation_spec import load_evaluation
from sciagent.training.rollouts.random_edit_policy import ScriptedPolicy
from tests.support.tiny_model import write_tiny_model


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    yield add_folder(write_tiny_model(tmp_path / "tiny", context=4096), "tiny", lambda text: None).name


@pytest.mark.long
def test_a_model_that_brings_nothing_ends_without_its_verifications(recipe: Path, tiny: str) -> None:
    """The random model writes no calls: nothing is verified, and every call counts as not carried out."""
    text = recipe.read_text(encoding="utf-8").replace("{policy: scripted}", "{model: tiny}").replace("[1, 2]", "[1]")
    recipe.write_text(text, encoding="utf-8")
    runs = CampaignRuns(Ledger(str(recipe.parent / "sciagent.db")))
    spec = load_evaluation(recipe)
    first, second = planned(spec, recipe.parent, "random", spec.arms["random"], find("tiny").sha256)
    found = runs.run(first)
    assert found is not None and found.verifications == found.hits == found.valid_calls == 0
    assert found.calls >= 25 and found.core_seconds > 0 and found.state == "finished"
    runs.stop()
    assert runs.run(second) is None
    runs.close()


def test_a_batch_policy_answers_one_question() -> None:
    policy = OneByOne(ScriptedPolicy())
    answer = policy.sample([], [], Sampling(1.0, 64, 3, None))
    assert answer.message.calls[0].name == "modify" and policy.identity(policy.name).source == "script"
