"""Exported data sets, loaded by `datasets`, on which the trainers of TRL train a tiny model for one step."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from sciagent.agent.policies.chat_templates import prompt_ids
from sciagent.store.database.ledger import Ledger
from sciagent.training.exports.exporting import export
from sciagent.training.read_turns import TrainingCampaign
from tests.support.environments import TRL, interpreter, run
from tests.support.exported import four_siblings, write_datasets
from tests.support.tiny_model import write_tiny_model

pytestmark = pytest.mark.long

FROM = {"trl-sft": "sft", "trl-dpo": "preference", "trl-kto": "unpaired", "trl-grpo": "rows", "huggingface": "rows"}


@pytest.fixture(scope="module")
def folder(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trl")
    write_datasets(four_siblings(migrated_sqlite, folder), folder)
    for to, kind in FROM.items():
        export(folder / kind, to, folder / "exports" / to)
    write_tiny_model(folder / "model", context=4096)
    return folder


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    """The reports of the trainers, by format."""
    exports, model = str(folder / "exports"), str(folder / "model")
    printed = run(interpreter("trl", *TRL), "-m", "tests.support.trl_steps", exports, model, folder=folder)
    return json.loads(printed.splitlines()[-1])


def test_each_trainer_moves_the_weights(told: dict[str, Any]) -> None:
    assert [name for name in FROM if name.startswith("trl-") and told[name]["moved"]] == list(FROM)[:4]


def test_sft_sees_the_prompt_of_the_model_and_trains_the_answer_alone(told: dict[str, Any], folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    ledger = Ledger(str(folder / "sciagent.db"), artifacts=folder / "sciagent-artifacts")
    campaign, asked = TrainingCampaign(ledger, "gaps", 10**6), []
    with ledger.read() as connection:
        for row in campaign.episode_rows(connection)[:2]:  # the verified answers are those of the first two episodes
            turns = campaign.turns(connection, campaign.episode(connection, row))
            asked += [prompt_ids(tokenizer, turn.prompt, json.loads(turn.tools)) for turn in turns]
    rows = told["trl-sft"]["rows"]
    assert [row["input_ids"][: len(ids)] for row, ids in zip(rows, asked, strict=True)] == asked
    answers = [tokenizer.decode([label for label in row["labels"] if label != -100]) for row in rows]
    call = '{"name": "propose", "arguments": {"smiles": "%s", "rationale": "a small one"}}'
    calls = [call % smiles for smiles in ("Oc1ccccc1", "CC#N", "CC=O")]
    assert answers == [f"<tool_call>\n{each}\n</tool_call><|im_end|>\n" for each in calls]
    assert [len(row["labels"]) - row["labels"].count(-100) for row in rows] == [
        len(row["input_ids"]) - len(ids) for row, ids in zip(rows, asked, strict=True)
    ]


def test_losses_are_those_of_the_formulas(told: dict[str, Any]) -> None:
    assert told["trl-sft"]["loss"] == pytest.approx(told["trl-sft"]["expected"], rel=1e-4)
    assert told["trl-dpo"]["loss"] == pytest.approx(math.log(2), rel=1e-5), "the model is its own reference"
    assert told["trl-kto"]["loss"] == pytest.approx(0.5, rel=1e-5)


def test_a_sample_for_each_turn_gives_the_loss_of_whole_rows(told: dict[str, Any]) -> None:
    assert told["trl-grpo"]["loss"] != 0
    assert told["trl-grpo"]["loss"] == pytest.approx(told["trl-grpo"]["expected"], rel=1e-4)


def test_tables_are_configurations_of_their_own(told: dict[str, Any]) -> None:
    assert told["huggingface"] == {"trajectories": 5, "evidence": 16, "rewards": 9}
