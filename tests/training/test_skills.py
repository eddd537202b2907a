"""Skills: groups with and without a text in the prompt, and the rows that distil it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sciagent import Campaign
from sciagent.agent.install_and_find_models import add_folder
from sciagent.agent.messages_sampling_and_policy_client import from_json
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.errors import SpecError
from sciagent.store.campaign_state import campaigns
from sciagent.store.learning import rollout_groups
from sciagent.training.dataset_building import build
from sciagent.training.learner.training_run import train
from sciagent.training.settings import DatasetSettings, TrainingSettings
from tests.support.tiny_model import write_tiny_model
from tests.training.rollouts import rolled

PROPOSER = "{kind: llm, model: scripted, seeds: molecules.csv, skills: [small_steps.md]}"
TEXT = rolled.TEXT.replace("rolled", "skilled").replace("{kind: screen, file: molecules.csv}", PROPOSER)
SKILL = "Change one group at a time, and keep what helped."


def written(folder: Path, skill: str = SKILL, text: str = TEXT) -> Path:
    (folder / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
    (folder / "small_steps.md").write_text(skill, encoding="utf-8")
    (folder / "skilled.yaml").write_text(text, encoding="utf-8")
    return folder / "skilled.yaml"


def test_paired_groups_differ_in_the_text_alone_and_become_rows_that_distil_it(tmp_path: Path) -> None:
    campaign = Campaign.from_yaml(written(tmp_path), tmp_path / "ledger.db")
    answer = campaign.rollout(1, 2, 2, policy="scripted", skills="paired")
    assert [each.state for each in answer.groups] == ["complete", "complete"]
    with campaign.ledger.store.read() as connection:
        row = campaigns.get(connection, "skilled")
        first, second = rollout_groups.of_campaign(connection, row.id)
    assert first.snapshot_watermark == second.snapshot_watermark and first.snapshot_seq == second.snapshot_seq
    with_skill, without = ([from_json(each).content for each in row.opening] for row in (first, second))
    assert with_skill == [without[0], f"{without[1]}\n\nSkill small_steps:\n{SKILL}"]
    ledger = campaign.ledger.store
    build(ledger, DatasetSettings(kind="unpaired", campaigns=["skilled"]), tmp_path / "all")
    kept = {row["skill"] for row in pq.read_table(tmp_path / "all" / "train.parquet").to_pylist()}
    built = build(ledger, DatasetSettings(kind="skill", campaigns=["skilled"]), tmp_path / "skill")
    rows = pq.read_table(tmp_path / "skill" / "train.parquet").to_pylist()
    assert len(rows) == 4 == built.left_out["turns: sampled with the skills; the student has to be without"]
    [label] = {row["skill"] for row in rows}
    assert label.startswith("small_steps@") and kept <= {label, None} and label in kept
    assert all(row["how"] == "hinted" and row["hint"] == f"Skill small_steps:\n{SKILL}" for row in rows)
    assert "sampled without a skill" in (tmp_path / "skill" / "README.md").read_text(encoding="utf-8")
    assert not any(SKILL in message["content"] for row in rows for message in row["prompt"])


@pytest.mark.long
def test_the_rows_are_trained_with_the_text_before_the_teacher_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    add_folder(write_tiny_model(tmp_path / "tiny", context=8000), "tiny", lambda text: None)
    text = TEXT.replace("scripted", "tiny").replace(
        "skills:", "max_tokens: 24, context: 8000, tools: [best], structured: false, skills:"
    )
    campaign = Campaign.from_yaml(written(tmp_path, text=text), tmp_path / "ledger.db")
    assert campaign.rollout(1, 3, 1, skills="without").turns == 3
    built = build(campaign.ledger.store, DatasetSettings(kind="skill", campaigns=["skilled"]), tmp_path / "skill")
    assert built.rows["train"] == 3, built
    run_settings = TrainingSettings(
        training="hindsight",
        rows=tmp_path / "skill",
        model="tiny",
        out=tmp_path / "run",
        name="taught",
        threads=1,
        steps=1,
    )
    answer = train(run_settings, None, lambda step, of: None)
    assert answer.steps == 1 and answer.policy is not None and not answer.left_out


def test_the_text_is_part_of_the_campaign(tmp_path: Path) -> None:
    hashes = [load_spec(written(tmp_path, skill)).identity_hash for skill in (SKILL, "Be bold.")]
    assert len(set(hashes)) == 2
    stored = load_spec(written(tmp_path)).canonical()["proposer"]["skills"]
    assert stored == [{"name": "small_steps", "text": SKILL}]


@pytest.mark.parametrize(
    ("skill", "file", "why"),
    [("x" * 8001, "small_steps.md", "8001 characters"), (" ", "small_steps.md", "0 char"), ("a", "gone.md", "read")],
)
def test_a_skill_that_cannot_be_used_is_refused(tmp_path: Path, skill: str, file: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        load_spec(written(tmp_path, skill, TEXT.replace("small_steps.md", file)))
