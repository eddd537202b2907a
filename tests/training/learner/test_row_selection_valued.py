"""Rows with the rewards of their turns: from the ledger to a run of PPO."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from sciagent.errors import UsageError
from sciagent.rewards.publish_versions import publish
from sciagent.store.database.ledger import Ledger
from sciagent.training.learner import training_run
from sciagent.training.learner.learner_rows_and_rendered_conversations import Conversations
from sciagent.training.learner.row_selection import DatasetRows
from sciagent.training.settings import CriticSettings, LearnerConstants, TrainingSettings
from tests.support.conversing import Conversing, conversing
from tests.training.learner.test_row_selection_dataset_rows import SPEC, folder
from tests.training.learner.test_row_selection_dataset_rows import conversations as conversations

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Conversing:
    """An episode with a miss and a hit; one whose second turn waits for an answer; one of which nothing is known."""
    made = conversing(ledger, tmp_path / "campaign")
    made.talk(1, ["CCC", "CCO"])
    made.talk(2, ["CCCC", "CCCCC", "CCF"])
    made.talk(3, ["CCCCCC"])
    for smiles, gap in (("CCC", 12.0), ("CCO", 5.0), ("CCCC", 12.0), ("CCF", 5.0)):
        made.verify(smiles, gap)
    publish(made.ledger, "small", SPEC)
    return made


def test_rows_have_the_rewards_of_their_episode(made: Conversing, tmp_path: Path, conversations: Conversations) -> None:
    path, cells = folder(made, "rows", tmp_path / "rows")
    rewards = [cell["turn_rewards"] for cell in cells]
    assert [len(each) for each in rewards] == [2, 3, 1] and rewards[1][1] is None is rewards[2][0]
    assert rewards[0][1] > 0.4 > rewards[0][0] and rewards[1][2] > 0.3
    data = DatasetRows(path, "ppo", conversations, 4096)
    assert data.left_out == {"rows: have no decided reward": 1} and [unit.numbers for unit in data.units] == [
        (0,),
        (1,),
    ]
    [one, _] = data.rows(data.units)
    assert one.episode is not None and one.episode.episode == "small 1"
    assert [turn.number for turn in one.episode.turns] == [0, 1] and list(one.mask) == cells[0]["trainable"]
    assert one.episode.rewards == tuple(rewards[0])


def test_a_run_keeps_its_value_head_to_itself(made: Conversing, tmp_path: Path, tiny: str) -> None:
    path, _ = folder(made, "rows", tmp_path / "rows")
    # the answers of this test were not drawn by the model, so that no ratio may drop or clip them
    constants = LearnerConstants(mask_low=0.0, mask_high=1e9)
    name = f"ppo-{tmp_path.name}"[:60]
    run_settings = TrainingSettings(
        training="ppo",
        rows=path,
        model=tiny,
        out=tmp_path / "out",
        name=name,
        epochs=2,
        threads=1,
        learning_rate=1e-3,
        critic=CriticSettings(passes=2),
        constants=constants,
    )
    told = []
    answer = training_run.train(run_settings, None, lambda step, of: told.append(step))
    assert answer.stopped_by == "rows" and answer.steps == 2 and told[1].value_loss < told[0].value_loss
    assert told[0].explained_variance > 0.3, "the value head was fitted before the first update"
    lines = [json.loads(line) for line in (run_settings.out / "metrics.jsonl").read_text().splitlines()]
    assert lines == [step.model_dump() for step in told]
    checkpoint = torch.load(run_settings.out / "checkpoint.pt", weights_only=True)
    held = checkpoint["weights"]
    assert "head.weight" in held and held["head.weight"].abs().max() > 0 and checkpoint["values"]["scale"] > 0
    assert not (run_settings.out / "policy" / "head.weight").exists()
    with pytest.raises(UsageError, match="another critic"):
        training_run.train(run_settings.with_changes(critic=CriticSettings()), None, lambda step, of: None)
