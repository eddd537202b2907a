"""Training rows that are read from the ledger, beside those of a data set of the same episodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sciagent.agent.install_and_find_models import add_folder
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import rollout_groups, versioned_rewards
from sciagent.training.learner.learner_rows_and_rendered_conversations import TrainingRow
from sciagent.training.learner.row_selection import sampled_row, valued_row
from sciagent.training.live import group_waves
from tests.support.rolled_out import rolled_out
from tests.support.tiny_model import write_tiny_model


def test_rows_of_the_ledger_are_those_of_the_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    add_folder(write_tiny_model(tmp_path / "tiny", context=4096), "tiny", lambda text: None)
    table = pq.read_table(rolled_out(tmp_path, "tiny") / "train.parquet").to_pylist()
    ledger = Ledger(str(tmp_path / "sciagent.db"))
    built = open_campaign_for_people(ledger, "sampled")
    with ledger.read() as connection:
        [row] = rollout_groups.of_campaign(connection, built.row.id)
        version = versioned_rewards.get(connection, table[0]["reward_version"])
        [group] = group_waves.read_rewarded_groups(connection, built, version, [row.id], 4096)
        [valued] = group_waves.read_rewarded_groups(connection, built, version, [row.id], 4096, "ppo")
        [short] = group_waves.read_rewarded_groups(connection, built, version, [row.id], 10)
    assert [rounded(each) for each in group.rows] == [rounded(sampled_row(cells)) for cells in table]
    assert [rounded(each) for each in valued.rows] == [rounded(valued_row(cells)) for cells in table]
    assert len(group.turns) == 6 and len(group.outcomes) == 3 and valued.turns == group.turns
    assert group.outcomes == pytest.approx([sum(terms.values()) for terms in group.terms])
    assert valued.has_something_to_learn and not short.has_something_to_learn and not short.rows


def rounded(row: TrainingRow) -> TrainingRow:
    """The row with numbers in single precision, as Parquet keeps them."""
    episode = row.episode and row.episode._replace(rewards=tuple(single(each or 0) for each in row.episode.rewards))
    advantages, behaviour = tuple(map(single, row.advantages)), tuple(map(single, row.behaviour or ()))
    return replace(row, reward=single(row.reward or 0), episode=episode, advantages=advantages, behaviour=behaviour)


def single(value: float) -> float:
    return float(np.float32(value))
