"""Exported data sets as verl and SkyRL read them: both train a tiny model on what it sampled itself, and on answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer

from sciagent.agent.install_and_find_models import add_folder
from sciagent.training.exports.exporting import export
from tests.support.environments import SKYRL, VERL, interpreter, run
from tests.support.exported import four_siblings, write_datasets
from tests.support.rolled_out import fork, rolled_out
from tests.support.tiny_model import write_tiny_model

pytestmark = pytest.mark.slow

CALL = '<tool_call>\n{"name": "propose", "arguments": {"smiles": "%s", "rationale": "a small one"}}\n</tool_call>'
ANSWER = CALL + "<|im_end|>\n"


@pytest.fixture(scope="module")
def folder(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tiny model, answers to imitate, and episodes that the model sampled, exported for both."""
    folder = tmp_path_factory.mktemp("exported")
    write_datasets(four_siblings(migrated_sqlite, folder), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_MODELS", str(folder / "models"))
        add_folder(write_tiny_model(folder / "model", context=8192), "tiny", lambda text: None)
        sampled = rolled_out(tmp_path_factory.mktemp("sampled"), "tiny")
    fork(sampled)
    for to in ("verl", "skyrl"):
        export(folder / "sft", to, folder / to / "sft")
        export(sampled, to, folder / to / "rows")
        (folder / f"{to}-run").mkdir()
    yield folder


def told_by(to: str, packages: tuple[str, ...], folder: Path) -> dict[str, Any]:
    script = Path(__file__).parents[2] / "support" / f"{to}_steps.py"
    exports, model = str(folder / to), str(folder / "model")
    printed = run(interpreter(to, *packages), "-P", str(script), exports, model, folder=folder / f"{to}-run")
    return dict(json.loads(printed.splitlines()[-1]))


@pytest.fixture(scope="module")
def verl(folder: Path) -> dict[str, Any]:
    return told_by("verl", VERL, folder)


@pytest.fixture(scope="module")
def skyrl(folder: Path) -> dict[str, Any]:
    return told_by("skyrl", SKYRL, folder)


@pytest.fixture(params=["verl", "skyrl"])
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.getfixturevalue(request.param))


def test_the_answer_alone_is_trained_after_the_whole_prompt(told: dict[str, Any], folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    answers = [
        tokenizer.decode(
            [
                id_
                for id_, used in zip(row["input_ids"][-len(row["loss_mask"]) :], row["loss_mask"], strict=True)
                if used
            ]
        )
        for row in told["sft"]["rows"]
    ]
    assert answers == [ANSWER % smiles for smiles in ("Oc1ccccc1", "CC#N", "CC=O")]
    texts = [tokenizer.decode(row["input_ids"]) for row in told["sft"]["rows"]]
    assert all('"parameters": {"type": "object"}' in text and "null" not in text for text in texts)
    assert CALL % "Oc1ccccc1" in texts[1], "the earlier answer is context"


def test_fine_tuning_has_the_loss_of_the_answers_and_moves_the_weights(told: dict[str, Any]) -> None:
    assert told["sft"]["loss"] == pytest.approx(told["sft"]["expected"], rel=1e-5) and told["sft"]["moved"]


def test_the_policy_loss_is_that_of_the_formula_with_our_advantages(told: dict[str, Any]) -> None:
    first, second = told["rows"]["steps"]
    assert first["gap"] < 1e-4, "the probabilities are those with which the tokens were drawn"
    assert first["tokens"] > 50
    for step in (first, second):
        assert step["loss"] == pytest.approx(step["expected"], abs=1e-6)
    assert abs(second["loss"]) > 1e-4 and second["gap"] > 0.1, "other weights: ratios and clipping count"


def test_rows_come_through_with_what_was_sampled(told: dict[str, Any], folder: Path) -> None:
    stored = pq.read_table(folder / "verl" / "rows" / "train.parquet").to_pylist()
    sampled = [[i for i, m in zip(row["responses"], row["response_mask"], strict=True) if m] for row in stored]
    assert told["rows"]["trained"] == sampled
    assert set(told["rows"]["uid"]) == {"sampled/group 1"}


def test_verl_takes_the_batch_of_a_policy_update(verl: dict[str, Any], folder: Path) -> None:
    stored = pq.read_table(folder / "verl" / "rows" / "train.parquet").to_pylist()
    shapes, n = verl["rows"]["shapes"], len(stored)
    p, r = (max(len(row[name]) for row in stored) for name in ("prompts", "responses"))
    assert shapes["prompts"] == [n, p] and shapes["input_ids"] == shapes["position_ids"] == [n, p + r]
    assert all(shapes[name] == [n, r] for name in ("responses", "old_log_probs", "advantages", "token_level_rewards"))
    assert verl["rows"]["temperature"] == 0.7 and verl["rows"]["moved"]
    assert verl["rows"]["scores"] == pytest.approx([sum(row["token_level_scores"]) for row in stored], rel=1e-5)


def test_one_batch_has_one_temperature_and_no_reward_that_is_undecided(
    verl: dict[str, Any], skyrl: dict[str, Any], folder: Path
) -> None:
    n = pq.read_metadata(folder / "verl" / "rows" / "train.parquet").num_rows
    several, none = verl["rows"]["mixed"]["refused"]
    assert "rows of temperatures [0.7, 1.5]; state one of them" in several and "no rows of temperature 0.3" in none
    assert verl["rows"]["mixed"]["rows"] == [n - 1, 1] and not verl["rows"]["mixed"]["scored"]
    mixed, undecided = skyrl["rows"]["refused"]
    assert "state one of them" in mixed and "no episode has a decided outcome" in undecided
    assert skyrl["rows"]["decided"] == n - 2


def test_verls_own_dataset_makes_the_same_of_a_single_answer(verl: dict[str, Any]) -> None:
    assert verl["own_dataset"]["alike"] == [True, True]
    right, long, cut = verl["own_dataset"]["refused"]
    assert "no_padding" in right["why"] and "data.max_length is 10" in long["why"] and cut == {"length": 10}


def test_skyrl_accepts_the_rows_as_the_output_of_a_generator(skyrl: dict[str, Any], folder: Path) -> None:
    stored = pq.read_table(folder / "skyrl" / "rows" / "train.parquet").to_pylist()
    assert skyrl["rows"]["is_last_step"] == [row["is_last_step"] for row in stored] == [False, True] * 3
    assert skyrl["rows"]["same"] == {"sequences": True, "attention_mask": True, "loss_mask": True}
    outcomes = [sum(row["rewards"]) for row in stored if row["is_last_step"]]
    left_out_of = [own - (sum(outcomes) - own) / 2 for own in outcomes]
    assert skyrl["rows"]["estimated"] == pytest.approx([each for each in left_out_of for _ in range(2)], abs=1e-4)
    assert all(step["moved"] for step in skyrl["rows"]["steps"])


def test_openings_are_prompts_for_their_own_rollouts(verl: dict[str, Any], skyrl: dict[str, Any]) -> None:
    [theirs], [other] = verl["prompts"]["rows"], skyrl["prompts"]["rows"]
    assert [message["role"] for message in theirs["raw_prompt"]] == ["system", "user"]
    assert theirs["data_source"] == other["env_extras"]["data_source"] == "sciagent/sampled"
    assert theirs["reward_model"] == {"style": "rule", "ground_truth": other["env_extras"]["task"]}
    assert theirs["extra_info"]["index"] == theirs["index"] == 0
    assert other["prompt"] == theirs["raw_prompt"]
