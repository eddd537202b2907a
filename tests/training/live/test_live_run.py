"""Training on the live ladder, from a random model to a campaign that the trained one proposes in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent import Campaign
from sciagent.agent import install_and_find_models as models
from sciagent.agent.install_and_find_models import add_folder
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.lab_learning_and_people_tables import training_use
from sciagent.store.database.ledger import Ledger
from sciagent.training.command_answers import TrainedPolicy, TrainedStep
from sciagent.training.dataset_building import build
from sciagent.training.learner import training_run as offline
from sciagent.training.live.live_run import train_live
from sciagent.training.settings import DatasetSettings, LiveSettings, TaskShare, TrainingSettings
from tests.support.tiny_model import write_tiny_model

CAMPAIGN = """
campaign: {name}
subject: molecule
seed: 1
objectives:
  - {{property: homo_lumo_gap, window: [2, 4], unit: eV}}
ladder:
  - {{rung: checks, verifier: molecule.checks}}
  - {{rung: xtb, verifier: xtb.singlepoint, settings: {{geometry: {{method: mmff94, conformers: 1}}}}, inline: true}}
goal: {{kind: hits}}
budget: {{proposals: 100000}}
proposer: {{kind: llm, model: {model}, seeds: molecules.csv, max_tokens: 150, tools: [modify]}}
scheduler: {{kind: exhaustive}}
workers: 1
"""
REWARDS = "prices: {llm_tokens: 0.0001}\nunsettled: settled\n"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_MODELS", str(tmp_path_factory.mktemp("models")))
        folder = write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny", context=4096)
        yield add_folder(folder, "tiny", lambda text: None).name


def written(folder: Path, name: str, model: str = "tiny", text: str = CAMPAIGN) -> Path:
    """Writes the file of a campaign, with its seeds and the description of its rewards."""
    (folder / "molecules.csv").write_text("smiles\nCO\nCCO\nc1ccccc1\nc1ccccc1O\n", encoding="utf-8")
    (folder / "rewards.yaml").write_text(REWARDS, encoding="utf-8")
    file = folder / f"{name}.yaml"
    file.write_text(text.format(name=name, model=model), encoding="utf-8")
    return file


def settings_for(folder: Path, *files: Path, **more: Any) -> LiveSettings:
    given: dict[str, Any] = {"steps": 2, "groups": 2, "siblings": 3, "turns": 2, "threads": 1}
    given |= {"learning_rate": 1e-3} | more
    tasks = [TaskShare(file=file) for file in files]
    return LiveSettings(
        tasks=tasks,
        model="tiny",
        out=folder / "run",
        name=f"live-{folder.name}"[:60],
        rewards=folder / "rewards.yaml",
        **given,
    )


def run(run_settings: LiveSettings, ledger: Ledger) -> tuple[TrainedPolicy, list[TrainedStep]]:
    told: list[TrainedStep] = []
    return train_live(run_settings, ledger, lambda step, of: told.append(step)), told


def used(ledger: Ledger) -> list[Any]:
    with ledger.read() as connection:
        return list(connection.execute(sa.select(training_use).order_by(training_use.c.id)).mappings())


@pytest.mark.long
def test_from_a_random_model_to_a_campaign_that_the_trained_one_proposes_in(tmp_path: Path, tiny: str) -> None:
    file = written(tmp_path, "whole")
    campaign = Campaign.from_yaml(file, tmp_path / "ledger.db")
    ledger = campaign.ledger.store
    campaign.rollout(2, 6, 3, policy="scripted", purpose="demonstration")
    build(ledger, DatasetSettings(kind="sft", campaigns=["whole"], at_least=0.0, per_scaffold=100), tmp_path / "sft")
    taught = TrainingSettings(
        training="sft",
        rows=tmp_path / "sft",
        model=tiny,
        out=tmp_path / "taught",
        name="taught",
        rows_per_step=8,
        threads=1,
        steps=4,
    )
    offline.train(taught.with_changes(learning_rate=0.003), ledger, lambda step, of: None)
    answer, told = run(settings_for(tmp_path, file).with_changes(model="taught"), ledger)
    assert answer.stopped_by == "steps" and answer.steps == 2 and answer.parent == models.find("taught").policy
    assert [step.masked for step in told] == [0.0, 0.0], "the policy that samples is the one that is trained"
    assert all(step.groups == 2 and set(step.terms) >= {"evidence", "cost"} for step in told)
    assert all(step.seconds.sample > 0 and step.seconds.verify > 0 and step.seconds.update > 0 for step in told)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines == [step.model_dump() for step in told]
    with ledger.read() as connection:
        rows = {row.id: row for row in connection.execute(sa.select(t.policy)).all()}
    by_name = {row.name: row for row in rows.values()}
    last = by_name[str(answer.policy)]
    first = rows[last.parent_id]
    assert told[0].policy == answer.parent and told[1].policy == first.name, "each step samples with its own version"
    assert first.parent_id == by_name[answer.parent].id and first.recipe["step"] == 1
    assert first.recipe["training"] == "grpo"
    turns = used(ledger)
    assert {use["policy_id"] for use in turns} == {first.id, last.id}
    assert len({use["turn_id"] for use in turns}) == len(turns), "no turn is used twice"
    other = written(tmp_path, "next", model=answer.policy.partition("@")[0] if answer.policy else "")
    after = Campaign.from_yaml(other, ledger).rollout(1, 2, 1)
    assert after.policy == answer.policy and after.turns == 2
    again, nothing = run(settings_for(tmp_path, file).with_changes(model="taught"), ledger)
    assert again == answer and not nothing, "a run that is complete has nothing left to do"


def test_ppo_learns_values_from_episodes_that_its_policy_samples(tmp_path: Path, tiny: str) -> None:
    file = written(tmp_path, "valued")
    ledger = Campaign.from_yaml(file, tmp_path / "ledger.db").ledger.store
    run_settings = settings_for(tmp_path, file, steps=1, learning_rate=1e-6, training="ppo")
    answer, told = run(run_settings, ledger)
    models.remove(run_settings.name)
    assert answer.stopped_by == "steps" and [step.masked for step in told] == [0.0]
    assert all(step.value_loss is not None and step.rows > 0 for step in told)


def test_a_run_ends_where_the_model_gives_no_answer(tmp_path: Path, tiny: str) -> None:
    short = add_folder(write_tiny_model(tmp_path / "short", context=64), "short", lambda text: None)
    file = written(tmp_path, "short", short.name)
    ledger = Ledger(str(tmp_path / "sciagent.db"))
    with pytest.raises(UsageError, match=r"step 1: the model gave no answer in any episode; .*tokens"):
        train_live(settings_for(tmp_path, file).with_changes(model=short.name), ledger, lambda step, of: None)
    ledger.close()


def test_what_cannot_be_done_is_refused_before_the_first_turn(tmp_path: Path, tiny: str) -> None:
    file = written(tmp_path, "whole")
    ledger = Campaign.from_yaml(file, tmp_path / "ledger.db").ledger.store

    def refused(text: str, **changed: Any) -> None:
        with pytest.raises(UsageError, match=text):
            run(settings_for(tmp_path, file).with_changes(**changed), ledger)

    refused("tasks: ", tasks=())
    refused("siblings: .*2", siblings=1)
    refused("there is a model tiny already", name="tiny")
    refused("is named twice", tasks=(TaskShare(file=file), TaskShare(file=file)))
    assert not used(ledger)
